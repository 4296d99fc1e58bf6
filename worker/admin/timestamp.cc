#include "worker/admin/timestamp.h"

#include <cstdio>
#include <ctime>

namespace posthorn::admin {

std::string Rfc3339(runtime::WallTime time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto millis = ((ms % 1000) + 1000) % 1000;
  const auto seconds = static_cast<std::time_t>((ms - millis) / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", day, static_cast<int>(millis));
  return text;
}

}  // namespace posthorn::admin
