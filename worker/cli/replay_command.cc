#include "worker/cli/replay_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "config/units.h"
#include "worker/cli/exit_code.h"
#include "worker/cli/moment.h"
#include "worker/cli/replay_errand.h"
#include "worker/kafka/client_config.h"
#include "worker/kafka/cluster_questions.h"
#include "worker/kafka/offset_store.h"
#include "worker/runtime/clock.h"
#include "worker/runtime/log.h"

namespace posthorn::cli {
namespace {

using delivery::Offset;
using delivery::TopicPartition;
using std::chrono::milliseconds;

constexpr milliseconds kClusterAnswer{10'000};
constexpr milliseconds kBetweenLooks{250};

/// What was asked for, before Kafka is asked what that means.
struct Wanted {
  std::optional<runtime::WallTime> from, to;
  std::map<std::int32_t, Offset> from_offset, to_offset;
  milliseconds patience{};
};

/// One partition's part of it.
struct Part {
  Offset from = 0;
  std::optional<Offset> to;
  Offset low = 0, end = 0;  // of the log
};
using Plan = std::map<TopicPartition, Part>;

std::string Id() {
  std::random_device random;
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x", random(), random());
  return text.data();
}

std::optional<Wanted> Parse(const ReplayArguments& arguments, runtime::WallTime now, std::string* why) {
  Wanted wanted;
  if (arguments.from.empty() == arguments.offsets.empty()) {
    *why = "either --from TIME or --offset P:O is needed";
    return std::nullopt;
  }
  if (!arguments.from.empty()) {
    wanted.from = ParseMoment(arguments.from, now, why);
    if (!wanted.from) return std::nullopt;
  }
  for (const auto& text : arguments.offsets) {
    const auto place = ParsePlace(text, why);
    if (!place) return std::nullopt;
    if (!wanted.from_offset.insert(*place).second) {
      *why = "--offset names partition " + std::to_string(place->first) + " twice";
      return std::nullopt;
    }
  }
  if (!arguments.to.empty()) {
    std::string no_place;
    if (const auto place = ParsePlace(arguments.to, &no_place)) {
      const auto from = wanted.from_offset.find(place->first);
      if (wanted.from_offset.size() != 1 || from == wanted.from_offset.end() || place->second <= from->second) {
        *why = "--to " + arguments.to + " goes with one --offset of the same partition, before it";
        return std::nullopt;
      }
      wanted.to_offset.insert(*place);
    } else {
      wanted.to = ParseMoment(arguments.to, now, why);
      if (!wanted.to) return std::nullopt;
      if (wanted.from && *wanted.to <= *wanted.from) {
        *why = "--to lies before --from";
        return std::nullopt;
      }
    }
  }
  const auto patience = config::ParseDuration(arguments.patience, why);
  if (!patience) return std::nullopt;
  wanted.patience = *patience;
  return wanted;
}

class Replay {
 public:
  Replay(const FleetFiles& fleet, const config::Subscription& subscription, const Wanted& wanted, std::ostream& out,
         std::ostream& err)
      : subscription_(subscription),
        wanted_(wanted),
        config_(kafka::ClientConfig::From(fleet.deployment)),
        out_(out),
        err_(err) {}

  int Run(bool dry_run) {
    for (const auto& fault : config_.Faults()) {
      err_ << fault << '\n';
      return kCannot;
    }
    std::string error;
    cluster_ = kafka::ClusterQuestions::Create(config_, kClusterAnswer, error);
    if (cluster_) offsets_ = kafka::KafkaOffsetStore::Create(config_, {}, error);
    if (!offsets_) return Cannot(error);
    auto plan = MakePlan();
    if (!plan) return kCannot;
    Warn();
    return dry_run ? Show(*plan) : CarryOut(*plan);
  }

 private:
  int Cannot(const std::string& why) {
    err_ << "posthorn replay: " << why << '\n';
    return kCannot;
  }

  std::optional<Plan> MakePlan() {
    const auto partitions = cluster_->Partitions(subscription_.topic);
    if (!partitions || *partitions == 0) {
      static_cast<void>(Cannot(partitions ? "there is no topic " + subscription_.topic : cluster_->last_error()));
      return std::nullopt;
    }
    using Times = std::vector<std::optional<Offset>>;
    Times from(static_cast<std::size_t>(*partitions));
    Times to(static_cast<std::size_t>(*partitions));
    for (const auto& [time, offsets] : {std::pair(wanted_.from, &from), std::pair(wanted_.to, &to)}) {
      if (!time) continue;
      auto found = cluster_->FirstSince(subscription_.topic, *partitions, *time);
      if (!found) {
        static_cast<void>(Cannot(cluster_->last_error()));
        return std::nullopt;
      }
      *offsets = std::move(*found);
    }
    Plan plan;
    for (std::int32_t i = 0; i < *partitions; ++i) {
      if (!wanted_.from && wanted_.from_offset.count(i) == 0) continue;
      const TopicPartition partition{subscription_.topic, i};
      const auto bounds = cluster_->Bounds(partition);
      if (!bounds) {
        static_cast<void>(Cannot(cluster_->last_error()));
        return std::nullopt;
      }
      Part part;
      std::tie(part.low, part.end) = *bounds;
      const auto index = static_cast<std::size_t>(i);
      part.from = wanted_.from ? from[index].value_or(part.end) : wanted_.from_offset.at(i);
      if (wanted_.to) part.to = to[index].value_or(part.end);
      if (const auto place = wanted_.to_offset.find(i); place != wanted_.to_offset.end()) part.to = place->second;
      part.from = std::max(part.from, part.low);
      plan[partition] = part;
    }
    for (const auto& [partition, offset] : wanted_.from_offset) {
      if (partition < *partitions) continue;
      static_cast<void>(Cannot(subscription_.topic + " has no partition " + std::to_string(partition) + ": it has " +
                               std::to_string(*partitions)));
      return std::nullopt;
    }
    return plan;
  }

  void Warn() {
    if (subscription_.ttl_from == config::TtlFrom::kPublished) {
      err_ << "note: `ttl_from: published`: messages older than " << config::FormatDuration(subscription_.ttl)
           << " expire at once and become dead letters\n";
    }
    if (subscription_.paused) err_ << "note: the subscription is paused: it delivers when it goes on\n";
  }

  void Print(const TopicPartition& partition, const Part& part, Offset before, std::uint64_t again) {
    out_ << partition.topic << '/' << partition.partition << ": ";
    if (again == 0) {
      out_ << "nothing to do: everything below " << before << " is finished, nothing of it lies from " << part.from;
    } else {
      out_ << again << (again == 1 ? " message" : " messages") << " again, from " << part.from;
    }
    if (part.to) out_ << " to " << *part.to;
    if (again != 0) out_ << "; the position was " << before;
    out_ << '\n';
  }

  int Show(const Plan& plan) {
    std::vector<delivery::OffsetStore::Key> keys;
    for (const auto& [partition, part] : plan) keys.push_back({subscription_.name, partition});
    const auto stored = offsets_->Fetch(keys, kClusterAnswer);
    if (!stored) return Cannot("the stored positions cannot be read: Kafka does not answer");
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto& part = plan.at(keys[i].partition);
      const auto position = (*stored)[i].value_or(delivery::Position{part.low, {}});
      auto decoded = delivery::DecodeCommitState(position.next, position.metadata);
      auto* known = std::get_if<delivery::CommitState>(&decoded);
      const auto rewound = delivery::RewindTo(
          position.next, known != nullptr ? std::move(*known) : delivery::CommitState{}, part.from, part.to);
      Print(keys[i].partition, part, position.next, rewound.again);
      total += rewound.again;
    }
    out_ << total << " in total; nothing was done (--dry-run)\n";
    return kDone;
  }

  int CarryOut(const Plan& plan) {
    const auto until = std::chrono::system_clock::now() + wanted_.patience;
    const auto until_ms = std::chrono::duration_cast<milliseconds>(until.time_since_epoch()).count();
    const auto id = Id();
    std::map<TopicPartition, delivery::ReplayRequest> requests;
    for (const auto& [partition, part] : plan) {
      if (part.from >= part.end || (part.to && *part.to <= part.from)) continue;
      requests[partition] = {id, subscription_.name, part.from, part.to, until_ms};
    }
    std::vector<std::string> problems;
    ReplayErrand::Parts parts;
    parts.offsets = offsets_.get();
    parts.members = [this](std::string* why) {
      const auto members = cluster_->Members();
      if (!members) *why = cluster_->last_error();
      return members;
    };
    parts.pause = [] { std::this_thread::sleep_for(kBetweenLooks); };
    const auto outcomes = ReplayErrand(std::move(parts)).Run(requests, wanted_.patience, problems);
    std::uint64_t total = 0;
    for (const auto& [partition, part] : plan) {
      const auto outcome = outcomes.find(partition);
      if (outcome != outcomes.end() && !outcome->second.refused.empty()) {
        problems.push_back(partition.topic + "/" + std::to_string(partition.partition) + ": " +
                           outcome->second.refused);
      } else if (outcome != outcomes.end()) {
        Print(partition, part, outcome->second.before, outcome->second.again);
        total += outcome->second.again;
      } else if (requests.count(partition) == 0) {
        out_ << partition.topic << '/' << partition.partition << ": nothing to do: no message lies there\n";
      }
    }
    out_ << total << " in total\n";
    for (const auto& problem : problems) err_ << "posthorn replay: " << problem << '\n';
    return problems.empty() ? kDone : kCannot;
  }

  const config::Subscription& subscription_;
  const Wanted& wanted_;
  const kafka::ClientConfig config_;
  std::ostream& out_;
  std::ostream& err_;
  std::unique_ptr<kafka::ClusterQuestions> cluster_;
  std::unique_ptr<kafka::KafkaOffsetStore> offsets_;
};

}  // namespace

int RunReplay(const ReplayArguments& arguments, const config::Capabilities& capabilities, std::ostream& out,
              std::ostream& err) {
  std::string why;
  const auto wanted = Parse(arguments, runtime::SystemClock().Read().wall, &why);
  if (!wanted) {
    err << "posthorn replay: " << why << "; see replay --help\n";
    return kUsage;
  }
  runtime::ConfigureLog(runtime::LogLevel::kWarning, false);
  const auto fleet = LoadFleetFiles(arguments.files, capabilities, err);
  if (!fleet) return kCannot;
  const auto* subscription = fleet->Find(arguments.subscription);
  if (subscription == nullptr) {
    err << "posthorn replay: there is no subscription " << arguments.subscription << " in "
        << config::ToString(fleet->deployment.source) << '\n';
    return kCannot;
  }
  return Replay(*fleet, *subscription, *wanted, out, err).Run(arguments.dry_run);
}

void AddReplayCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities) {
  CLI::App* replay =
      app.add_subcommand("replay", "Deliver again what a subscription had finished, while the fleet runs");
  auto arguments = std::make_shared<ReplayArguments>();
  AddFleetFilesOptions(*replay, arguments->files);
  replay->add_option("SUBSCRIPTION", arguments->subscription, "Its name")->required();
  replay->add_option("--from", arguments->from,
                     "From the first message of each partition that is as new: 2026-11-21T08:15:30Z, or how long ago: "
                     "10min, 36h");
  replay->add_option("--offset", arguments->offsets, "P:O, from offset O of partition P alone; once per partition")
      ->allow_extra_args(false);
  replay->add_option(
      "--to", arguments->to,
      "Only what lies before: a time, or P:O beside one --offset. Without it everything from there on is "
      "delivered again");
  replay->add_flag("--dry-run", arguments->dry_run, "Say how many messages that would be, and do nothing");
  replay->add_option("--patience", arguments->patience, "How long to wait for the workers' answers")
      ->capture_default_str();
  replay->footer(
      "The worker that owns a partition ends what is in flight of this subscription there, goes back and goes on, "
      "under\n"
      "the subscription's max-rate; other subscriptions notice nothing, and messages keep their webhook-id. With --to\n"
      "what was finished behind it stays finished. A fleet without a worker begins there when it is started.\n"
      "Counts are offsets: with gaps in the log (compaction, transactions) there are fewer messages.\n"
      "Exit code: 0 done, 1 cannot, or not on every partition (why is on stderr), 2 wrong usage.");
  replay->callback(
      [arguments, capabilities, &exit_code] { exit_code = RunReplay(*arguments, capabilities, std::cout, std::cerr); });
}

}  // namespace posthorn::cli
