#include "worker/cli/demo_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ratelimit/max_rate.h"
#include "worker/cli/admin_client.h"
#include "worker/cli/child_process.h"
#include "worker/cli/exit_code.h"
#include "worker/cli/sink_server.h"
#include "worker/delivery/retry_record.h"
#include "worker/kafka/client_config.h"
#include "worker/kafka/embedded_broker.h"
#include "worker/kafka/producer.h"
#include "worker/runtime/clock.h"

namespace posthorn::cli {
namespace {

namespace json = boost::json;
using ratelimit::Label;
using ratelimit::LabelAt;
using std::chrono::seconds;

constexpr int kWorkers = 2;
constexpr int kPartitions = 6;
constexpr const char* kTopic = "orders";
constexpr const char* kSubscription = "billing";

struct DemoArguments {
  int seconds = 20;
  std::string rate = "400/s";
  std::string then = "800/s";
  std::uint64_t messages = 0;  // 0: what fits into the time
  std::string keep;
};

/// What is known of one worker process.
struct WorkerView {
  std::unique_ptr<ChildProcess> process;
  std::mutex mutex;
  std::condition_variable changed;
  std::string admin;  // once it listens
  std::ofstream log;
};

Label NowLabel() { return LabelAt(runtime::SystemClock().Read().wall); }

void WaitUntil(ratelimit::WallTime wall) {
  const auto now = runtime::SystemClock().Read();
  std::this_thread::sleep_until(now.steady + (wall - now.wall));
}

class Demo {
 public:
  explicit Demo(DemoArguments arguments) : arguments_(std::move(arguments)) {}

  int Run() {
    std::string why;
    if (!Prepare(&why)) {
      std::cerr << "posthorn demo: " << why << '\n';
      return kCannot;
    }
    WaitForWorkers();
    Watch();
    const bool complete = WaitForTheRest();
    return Summarise(complete);
  }

 private:
  bool Prepare(std::string* why) {
    first_ = *ratelimit::MaxRate::Parse(arguments_.rate, why);
    second_ = *ratelimit::MaxRate::Parse(arguments_.then, why);
    folder_ = arguments_.keep;
    if (folder_.empty()) {
      std::string pattern = (std::filesystem::temp_directory_path() / "posthorn-demo-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) {
        *why = "cannot make a temporary folder";
        return false;
      }
      folder_ = pattern;
    }
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);

    std::cout << "Posthorn demo: one topic with " << kPartitions << " partitions on an embedded broker, " << kWorkers
              << " workers, one subscriber.\n";
    broker_ = kafka::EmbeddedBroker::Create(*why);
    if (!broker_ || !broker_->CreateTopic(kTopic, kPartitions, *why)) return false;
    if (!broker_->CreateTopic(delivery::RetryTopic("demo"), 1, *why)) return false;  // it takes no admin requests
    sink_ = std::make_unique<SinkServer>(SinkOptions{});
    if (!sink_->Start(why)) return false;
    WriteDeployment();
    WriteSubscriptions(arguments_.rate);
    if (!Produce(why)) return false;
    for (int i = 0; i < kWorkers; ++i) StartWorker(i);
    return true;
  }

  void WriteDeployment() const {
    std::ofstream(folder_ / "posthorn.yaml") << "fleet: demo\n"
                                             << "instance: demo-0\n"
                                             << "membership: dynamic   # the embedded broker knows no static members\n"
                                             << "kafka:\n"
                                             << "  bootstrap.servers: " << broker_->bootstrap() << "\n"
                                             << "admin: 127.0.0.1:0\n"
                                             << "subscriptions: { file: subscriptions.yaml }\n"
                                             << "shards: 1\n"
                                             << "log: { format: json }\n";
  }

  void WriteSubscriptions(const std::string& rate) const {
    // Written beside and renamed: a reader sees the old file or the new one, never half of it.
    const auto next = folder_ / "subscriptions.yaml.next";
    std::ofstream(next) << "instances: " << kWorkers << "\n"
                        << "subscriptions:\n"
                        << "  - name: " << kSubscription << "\n"
                        << "    topic: " << kTopic << "\n"
                        << "    endpoint: http://" << sink_->address() << "/hooks/orders\n"
                        << "    max_rate: " << rate << "\n";
    std::filesystem::rename(next, folder_ / "subscriptions.yaml");
  }

  bool Produce(std::string* why) {
    config::Deployment deployment;
    deployment.fleet = "demo";
    deployment.kafka["bootstrap.servers"] = broker_->bootstrap();
    auto producer = kafka::Producer::Create(kafka::ClientConfig::From(deployment, /*embedded=*/true), *why);
    if (!producer) return false;
    produced_ = arguments_.messages;
    if (produced_ == 0) {
      // As many as the two max-rates let through in the time, a little less so that the end is reached.
      const Label start = NowLabel();
      const auto half = arguments_.seconds / 2;
      const auto first = first_.CumulativeAt(start + half) - first_.CumulativeAt(start);
      const auto second = second_.CumulativeAt(start + half) - second_.CumulativeAt(start);
      produced_ = static_cast<std::uint64_t>((first + second) * 9 / 10);
    }
    for (std::uint64_t i = 0; i < produced_; ++i) {
      const std::string key = "customer-" + std::to_string(i % 1000);
      const std::string value = R"({"order":)" + std::to_string(i) + R"(,"total":"12.50"})";
      kafka::OutgoingRecord record;
      record.topic = kTopic;
      record.partition = static_cast<std::int32_t>(i % kPartitions);
      record.key = key;
      record.value = value;
      record.headers.emplace_back("content-type", "application/json");
      if (!producer->Send(record)) {
        *why = producer->last_error();
        return false;
      }
    }
    if (!producer->Flush(seconds(30))) {
      *why = "the embedded broker did not take all messages: " + producer->last_error();
      return false;
    }
    std::cout << "Produced " << produced_
              << " messages. Workers join the group (the embedded broker takes 3 s for it).\n";
    return true;
  }

  void StartWorker(int index) {
    auto& view = workers_[static_cast<std::size_t>(index)];
    const std::string name = "demo-" + std::to_string(index);
    view.log.open(folder_ / (name + ".log"));
    view.process = std::make_unique<ChildProcess>(
        std::vector<std::string>{"worker", "--config", (folder_ / "posthorn.yaml").string(), "--set",
                                 "instance=" + name, "--embedded-broker"},
        [&view](const std::string& line) {
          view.log << line << std::endl;
          boost::system::error_code error;
          const auto parsed = json::parse(line, error);
          if (error || !parsed.is_object()) return;
          const auto* event = parsed.as_object().if_contains("event");
          const auto* address = parsed.as_object().if_contains("address");
          if (event == nullptr || address == nullptr || *event != "admin listening") return;
          const std::lock_guard lock(view.mutex);
          view.admin = std::string(address->as_string());
          view.changed.notify_all();
        });
  }

  void WaitForWorkers() {
    for (auto& view : workers_) {
      std::unique_lock lock(view.mutex);
      view.changed.wait_for(lock, seconds(10), [&view] { return !view.admin.empty(); });
    }
    // The table begins with the first request.
    const Label give_up = NowLabel() + 20;
    while (sink_->counts().requests == 0 && NowLabel() < give_up) WaitUntil(ratelimit::StartOf(NowLabel() + 1));
  }

  struct Seen {
    std::int64_t partial_limit = -1;
    std::int64_t lag = -1;
  };
  Seen Ask(WorkerView& view) {
    Seen seen;
    const auto body = GetFromAdmin(view.admin, "/subscriptions");
    if (!body) return seen;
    boost::system::error_code error;
    const auto parsed = json::parse(*body, error);
    if (error) return seen;
    const auto* list = parsed.is_object() ? parsed.as_object().if_contains("subscriptions") : nullptr;
    if (list == nullptr || !list->is_array() || list->as_array().empty()) return seen;
    const auto& subscription = list->as_array()[0].as_object();
    if (const auto* partial = subscription.if_contains("partial_limit"); partial != nullptr && partial->is_number()) {
      seen.partial_limit = partial->to_number<std::int64_t>();
    }
    if (const auto* lag = subscription.if_contains("lag"); lag != nullptr && lag->is_object()) {
      seen.lag = lag->at("total").to_number<std::int64_t>();
    }
    return seen;
  }

  void Watch() {
    std::printf("\n  second   max-rate   received/s   partial limit of each worker        lag\n");
    const Label start = NowLabel();
    bool changed = false;
    for (Label label = start; label < start + arguments_.seconds; ++label) {
      // In the middle of the window: what is printed is the second before, complete.
      WaitUntil(ratelimit::StartOf(label + 1) + std::chrono::milliseconds(200));
      const auto counts = sink_->counts();
      const auto second = counts.seconds.find(label);
      const auto received = second == counts.seconds.end() ? 0 : second->second.requests;
      std::string partial;
      std::int64_t lag = 0;
      for (auto& view : workers_) {
        const auto seen = Ask(view);
        partial += (partial.empty() ? "" : " + ") + (seen.partial_limit < 0 ? "?" : std::to_string(seen.partial_limit));
        if (seen.lag > 0) lag += seen.lag;
      }
      const auto& rate = changed ? arguments_.then : arguments_.rate;
      std::printf("  %6lld   %8s   %10llu   %-28s %10lld%s\n", static_cast<long long>(label - start + 1), rate.c_str(),
                  static_cast<unsigned long long>(received), partial.c_str(), static_cast<long long>(lag), "");
      std::fflush(stdout);
      if (!changed && label - start + 1 >= arguments_.seconds / 2) {
        changed = true;
        WriteSubscriptions(arguments_.then);
        changed_at_ = NowLabel();
        std::printf("           --- max-rate changed in subscriptions.yaml: %s -> %s ---\n", arguments_.rate.c_str(),
                    arguments_.then.c_str());
      }
      if (counts.requests >= produced_) break;
    }
    if (changed_at_ == 0) changed_at_ = NowLabel() + 1;
  }

  bool WaitForTheRest() {
    const Label give_up = NowLabel() + 30;
    while (sink_->counts().requests < produced_ && NowLabel() < give_up) {
      WaitUntil(ratelimit::StartOf(NowLabel() + 1));
    }
    return sink_->counts().requests >= produced_;
  }

  /// Permits used per window, as the workers labelled them, over both.
  std::map<Label, std::int64_t> LabelsOfAllWorkers() {
    std::map<Label, std::int64_t> sums;
    for (auto& view : workers_) {
      const auto body = GetFromAdmin(view.admin, std::string("/debug/labels?limit=") + kSubscription);
      boost::system::error_code error;
      const auto parsed = body ? json::parse(*body, error) : json::value();
      if (error || !parsed.is_object()) continue;
      for (const auto& pair : parsed.at("labels").as_array()) {
        sums[pair.as_array()[0].to_number<std::int64_t>()] += pair.as_array()[1].to_number<std::int64_t>();
      }
    }
    return sums;
  }

  int Summarise(bool complete) {
    const auto labels = LabelsOfAllWorkers();
    int stopped_well = 0;
    for (auto& view : workers_) stopped_well += view.process->Stop() == 0 ? 1 : 0;
    const auto counts = sink_->counts();
    sink_->Stop();

    std::size_t above = 0;
    std::int64_t most = 0;
    for (const auto& [label, used] : labels) {
      // In the window of the change either number may hold.
      const auto total = label < changed_at_    ? first_.Total(label)
                         : label == changed_at_ ? std::max(first_.Total(label), second_.Total(label))
                                                : second_.Total(label);
      if (used > total) ++above;
      most = std::max(most, used);
    }
    const auto delivered = counts.requests - counts.failed;
    std::cout << "\nDelivered " << delivered << " of " << produced_ << " messages"
              << (delivered > produced_ ? " (the rest are duplicates)" : "") << ", at most " << most
              << " attempts in one window over both workers;\nwindows above the max-rate: " << above << " of "
              << labels.size() << ". Workers stopped gracefully: " << stopped_well << " of " << kWorkers << ".\n";
    const bool well = complete && delivered == produced_ && above == 0 && !labels.empty() && stopped_well == kWorkers;
    if (!well || !arguments_.keep.empty()) {
      std::cout << "Configuration and logs of the workers: " << folder_.string() << "\n";
    } else {
      std::error_code ignored;
      std::filesystem::remove_all(folder_, ignored);
    }
    if (!well) std::cout << "This is not what the demo should show.\n";
    return well ? 0 : 1;
  }

  const DemoArguments arguments_;
  ratelimit::MaxRate first_, second_;
  std::filesystem::path folder_;
  std::unique_ptr<kafka::EmbeddedBroker> broker_;
  std::unique_ptr<SinkServer> sink_;
  std::uint64_t produced_ = 0;
  Label changed_at_ = 0;
  std::array<WorkerView, kWorkers> workers_;
};

}  // namespace

void AddDemoCommand(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "demo", "Show the main job: an embedded broker, a producer, two workers, a sink, a max-rate changed half-way");
  auto arguments = std::make_shared<DemoArguments>();
  const auto is_rate = [](const std::string& text) {
    std::string why;
    return ratelimit::MaxRate::Parse(text, &why) ? std::string() : why;
  };
  command->add_option("--seconds", arguments->seconds, "How long the table runs")
      ->check(CLI::Range(4, 600))
      ->capture_default_str();
  command->add_option("--rate", arguments->rate, "max_rate of the first half")->check(is_rate)->capture_default_str();
  command->add_option("--then", arguments->then, "max_rate of the second half")->check(is_rate)->capture_default_str();
  command->add_option("--messages", arguments->messages, "How many messages to produce (default: what fits)")
      ->check(CLI::Range(1, 200'000));
  command->add_option("--keep", arguments->keep,
                      "Folder for configuration and worker logs (default: removed at the end)");
  command->footer(
      "Each line is one second of the wall clock: what the subscriber received, beside the max-rate of the whole "
      "fleet\n"
      "and the part of it that each worker may use. Exit code: 0 everything was delivered within the max-rate, 1 not.");
  command->callback([arguments, &exit_code] { exit_code = Demo(*arguments).Run(); });
}

}  // namespace posthorn::cli
