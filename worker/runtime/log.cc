#include "worker/runtime/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace posthorn::runtime {
namespace {

bool json_lines = false;

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Never destroyed: threads of a library may log while the process ends.
spdlog::logger& Logger() {
  static auto* const logger = [] {
    auto* made = new spdlog::logger("posthorn", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() || text.find_first_of(" \"=\\\n\r\t") != std::string_view::npos;
}

}  // namespace

Field::Field(std::string_view k, double v) : key(k), value(fmt::format("{:.6g}", v)), bare(true) {}

void ConfigureLog(LogLevel level, bool json) {
  json_lines = json;
  Logger().set_level(ToSpdlog(level));
  if (json) {
    Logger().set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})", spdlog::pattern_time_type::utc);
  }
}

void Log(LogLevel level, std::string_view event, std::initializer_list<Field> fields) {
  auto& logger = Logger();
  const auto to = ToSpdlog(level);
  if (!logger.should_log(to)) return;
  std::string line;
  line.reserve(128);
  if (json_lines) {
    line += "\"event\":";
    AppendQuoted(line, event);
    for (const auto& field : fields) {
      line += ',';
      AppendQuoted(line, field.key);
      line += ':';
      if (field.bare) {
        line += field.value;
      } else {
        AppendQuoted(line, field.value);
      }
    }
  } else {
    line += event;
    for (const auto& field : fields) {
      line += ' ';
      line += field.key;
      line += '=';
      if (!field.bare && NeedsQuotes(field.value)) {
        AppendQuoted(line, field.value);
      } else {
        line += field.value;
      }
    }
  }
  logger.log(to, fmt::string_view("{}"), line);
}

}  // namespace posthorn::runtime
