#include "worker/admin/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace posthorn::admin {
namespace {

/// The fields of /proc/self/stat after the command's name, which may hold anything: [0] is field 3 of proc(5).
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::vector<std::string> fields;
  const auto end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return fields;
  std::istringstream rest(line.substr(end_of_name + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double BootTimeSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  }
  return -1;
}

double OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  double count = 0;
  while (const auto* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count - 1;  // without the folder's own
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  const auto fields = StatFields();
  // Numbers of proc(5): 14 utime, 15 stime, 20 num_threads, 22 starttime, 23 vsize, 24 rss.
  const auto field = [&fields](std::size_t number) { return std::stod(fields[number - 3]); };
  if (fields.size() >= 22) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    stats.cpu_seconds = (field(14) + field(15)) / ticks;
    stats.threads = field(20);
    stats.virtual_bytes = field(23);
    stats.resident_bytes = field(24) * static_cast<double>(sysconf(_SC_PAGESIZE));
    static const double boot_time = BootTimeSeconds();
    if (boot_time >= 0) stats.start_time_seconds = boot_time + field(22) / ticks;
  }
  stats.open_fds = OpenDescriptors();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = static_cast<double>(limit.rlim_cur);
  return stats;
}

}  // namespace posthorn::admin
