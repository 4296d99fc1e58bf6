#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::cli {

/// This program again, as a child with other arguments. Its standard error comes line by line to `on_line`, on a
/// thread of its own. A child that is still running at destruction is stopped (SIGTERM) and awaited; it dies with its
/// parent in any case.
///
/// Threads  One owner.
class ChildProcess {
 public:
  using LineHandler = std::function<void(const std::string& line)>;
  /// Errors: `pid()` is -1 when it could not be started.
  ChildProcess(const std::vector<std::string>& arguments, LineHandler on_line);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// SIGTERM, then waits. Returns its exit code, 128 + signal when it was killed. Idempotent.
  int Stop();

 private:
  void ReadLines(int fd, const LineHandler& on_line);
  pid_t pid_ = -1;
  int exit_code_ = -1;
  std::thread reader_;
};

}  // namespace posthorn::cli
