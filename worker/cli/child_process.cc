#include "worker/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace posthorn::cli {

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, LineHandler on_line) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  std::vector<std::string> all{"posthorn"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : all) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();

  pid_ = fork();
  if (pid_ == 0) {
    // Between fork and exec only calls that are safe in a child of a threaded process.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(ends[1], STDERR_FILENO);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(ends[1]);
  if (pid_ < 0) {
    close(ends[0]);
    return;
  }
  reader_ = std::thread([this, fd = ends[0], handler = std::move(on_line)] { ReadLines(fd, handler); });
}

void ChildProcess::ReadLines(int fd, const LineHandler& on_line) {
  std::string pending;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(n));
    std::size_t end = 0;
    while ((end = pending.find('\n')) != std::string::npos) {
      on_line(pending.substr(0, end));
      pending.erase(0, end + 1);
    }
  }
  close(fd);
}

int ChildProcess::Stop() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    pid_ = -1;
  }
  if (reader_.joinable()) reader_.join();
  return exit_code_;
}

ChildProcess::~ChildProcess() { Stop(); }

}  // namespace posthorn::cli
