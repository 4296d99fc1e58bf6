#include "worker/cli/sink_command.h"

#include <pthread.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>

#include "worker/cli/exit_code.h"
#include "worker/cli/minimal_sink.h"
#include "worker/cli/sink_server.h"

namespace posthorn::cli {

namespace {

using ratelimit::Label;
using std::chrono::milliseconds;

struct SinkArguments {
  SinkOptions server;
  std::string latency = "0ms";
  std::string fail = "0%";
  std::string poison = "0%";
  std::int64_t retry_after = -1;
  bool seconds = false;
  bool quiet = false;
  bool minimal = false;
};

/// SIGINT and SIGTERM, taken by waiting for them. Made before the threads start, so that they inherit the mask.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void Wait() const {
    int signal = 0;
    sigwait(&set_, &signal);
  }
  /// True when one came within `time`.
  [[nodiscard]] bool WaitFor(milliseconds time) const {
    const timespec duration{time.count() / 1000, (time.count() % 1000) * 1'000'000};
    return sigtimedwait(&set_, nullptr, &duration) > 0;
  }

 private:
  sigset_t set_{};
};

void PrintListening(const std::string& address) { std::cout << "{\"listening\":\"" << address << "\"}" << std::endl; }

milliseconds NowMs() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
}

/// Prints each second once it is over, from the first one with a request on, until a stop signal.
void PrintSeconds(const SinkServer& sink, const StopSignals& stop) {
  constexpr milliseconds kSettled{50};  // requests read at the very end of a second have been counted by then
  Label next = NowMs().count() / 1000;
  bool started = false;
  for (;;) {
    const milliseconds due = std::chrono::seconds(next + 1) + kSettled;
    while (NowMs() < due) {
      if (stop.WaitFor(std::max(milliseconds(1), due - NowMs()))) return;
    }
    const ArrivalCounts::Second second = sink.CountsAt(next);
    started = started || second.requests != 0;
    if (started) {
      std::cout << "{\"second\":" << next << ",\"requests\":" << second.requests << ",\"failed\":" << second.failed
                << "}" << std::endl;
    }
    ++next;
  }
}

int RunMinimal(const SinkArguments& arguments) {
  const StopSignals stop;
  MinimalSink sink;
  std::string why;
  if (!sink.Start(arguments.server.listen, &why)) {
    std::cerr << "posthorn sink: " << why << std::endl;
    return kCannot;
  }
  PrintListening(sink.address());
  stop.Wait();
  sink.Stop();
  if (!arguments.quiet) std::cout << "{\"requests\":" << sink.requests() << "}" << std::endl;
  return kDone;
}

int Run(const SinkArguments& arguments) {
  const StopSignals stop;
  SinkServer sink(arguments.server);
  std::string why;
  if (!sink.Start(&why)) {
    std::cerr << "posthorn sink: " << why << std::endl;
    return kCannot;
  }
  PrintListening(sink.address());
  if (arguments.seconds) {
    PrintSeconds(sink, stop);
  } else {
    stop.Wait();
  }
  sink.Stop();
  if (!arguments.quiet) {
    const auto counts = sink.counts();
    std::cout << "{\"requests\":" << counts.requests << ",\"failed\":" << counts.failed
              << ",\"largest_10ms\":" << counts.largest_10ms << ",\"largest_100ms\":" << counts.largest_100ms
              << ",\"largest_1s\":" << counts.largest_1s << "}" << std::endl;
  }
  return kDone;
}

}  // namespace

void AddSinkCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<SinkArguments>();
  SinkBehaviour& behaviour = arguments->server.behaviour;
  CLI::App* command = app.add_subcommand("sink", "Receive requests: answer, delay, fail and count as told");
  command->add_option("--listen", arguments->server.listen, "Address and port; port 0 takes a free one")
      ->capture_default_str();
  command->add_option("--status", behaviour.status, "Status of an answer")
      ->check(CLI::Range(200, 599))
      ->capture_default_str();
  command->add_option("--latency", arguments->latency, "Time before an answer: 50ms, 2s, or a range, 10ms-200ms")
      ->check([](const std::string& text) {
        SinkBehaviour any;
        return ParseLatency(text, any) ? std::string() : "not a duration or a range of two: " + text;
      })
      ->capture_default_str();
  command->add_option("--fail", arguments->fail, "Share of requests answered with --fail-status: 30%, or 0.3")
      ->check([](const std::string& text) { return ParseShare(text) ? std::string() : "not a share: " + text; })
      ->capture_default_str();
  command
      ->add_option("--poison", arguments->poison,
                   "Share of messages answered so with every attempt; which ones, their webhook-id says")
      ->check([](const std::string& text) { return ParseShare(text) ? std::string() : "not a share: " + text; })
      ->capture_default_str();
  command->add_option("--fail-status", behaviour.fail_status, "Status of a failed answer")
      ->check(CLI::Range(200, 599))
      ->capture_default_str();
  command->add_option("--retry-after", arguments->retry_after, "Seconds; sent with every answer that is not 2xx")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}));
  command->add_option("--log", arguments->server.log, "File (or - for stdout) that gets one JSON line per request");
  command->add_option("--threads", arguments->server.threads, "Threads that serve")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command->add_flag("--seconds", arguments->seconds, "Print each second's count as a JSON line");
  command->add_flag("--quiet", arguments->quiet, "No totals at the end");
  command->add_flag("--minimal", arguments->minimal,
                    "For benchmarks: 204 to everything as fast as possible; only --listen and --quiet count");
  command->footer(
      "Prints {\"listening\":\"HOST:PORT\"} first and runs until SIGINT or SIGTERM. While it runs:\n"
      "  curl http://HOST:PORT/_sink/counts\n"
      "  curl http://HOST:PORT/_sink/set -d '{\"status\":200,\"fail\":\"30%\",\"poison\":\"1%\","
      "\"fail_status\":503,\"latency_ms\":[10,200],\"retry_after\":2,\"reset\":\"5%\"}'");
  command->callback([arguments, &exit_code] {
    SinkBehaviour& b = arguments->server.behaviour;
    b.fail = ParseShare(arguments->fail).value_or(0);
    b.poison = ParseShare(arguments->poison).value_or(0);
    if (!ParseLatency(arguments->latency, b)) throw CLI::ValidationError("--latency", "not a duration");
    if (arguments->retry_after >= 0) b.retry_after = arguments->retry_after;
    exit_code = arguments->minimal ? RunMinimal(*arguments) : Run(*arguments);
  });
}

}  // namespace posthorn::cli
