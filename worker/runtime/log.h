#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace posthorn::runtime {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// One `key=value` of a log line. Numbers and flags are written bare, texts quoted where needed.
struct Field {
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), bare(true) {}
  Field(std::string_view k, double v);
  template <typename Integer>
  requires std::is_integral_v<Integer> Field(std::string_view k, Integer v)
      : key(k), value(std::to_string(v)), bare(true) {}

  std::string_view key;
  std::string value;
  bool bare = false;
};

/// Chooses level and format for the process; called once at start, before other threads log.
/// `json`: one JSON object per line instead of `time level event key=value ...`. Lines go to stderr.
void ConfigureLog(LogLevel level, bool json);

/// Writes one line: a short constant event text first, what varies in fields. Never a secret.
/// Threads  Any. Cost: nothing but a comparison when the level is off.
void Log(LogLevel level, std::string_view event, std::initializer_list<Field> fields = {});

}  // namespace posthorn::runtime
