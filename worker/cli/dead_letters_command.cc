#include "worker/cli/dead_letters_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <tuple>
#include <utility>

#include "worker/cli/dead_letter_view.h"
#include "worker/cli/exit_code.h"
#include "worker/cli/moment.h"
#include "worker/delivery/retry_record.h"
#include "worker/kafka/client_config.h"
#include "worker/kafka/cluster_questions.h"
#include "worker/kafka/fleet_topics.h"
#include "worker/kafka/producer.h"
#include "worker/kafka/topic_reader.h"
#include "worker/runtime/clock.h"
#include "worker/runtime/log.h"

namespace posthorn::cli {
namespace {

using LettersAction = DeadLettersArguments::Action;
using delivery::Offset;
using delivery::TopicPartition;

constexpr std::chrono::milliseconds kKafka{10'000};

std::optional<LetterFilter> Parse(const DeadLettersArguments& arguments, runtime::WallTime now, std::string* why) {
  LetterFilter filter;
  if (!arguments.subscription.empty()) filter.subscription = arguments.subscription;
  if (!arguments.reason.empty()) {
    filter.reason = delivery::DeadLetterReasonOf(arguments.reason);
    if (!filter.reason) {
      *why = "`" + arguments.reason + "` is no reason: expired, attempts, rejected, gone, too-large, filtered-error";
      return std::nullopt;
    }
  }
  if (!arguments.since.empty() && !(filter.since = ParseMoment(arguments.since, now, why))) return std::nullopt;
  if (!arguments.until.empty() && !(filter.until = ParseMoment(arguments.until, now, why))) return std::nullopt;
  for (const auto& text : arguments.places) {
    const auto place = ParsePlace(text, why);
    if (!place) return std::nullopt;
    filter.places.push_back(*place);
  }
  const bool any = filter.subscription || filter.reason || filter.since || filter.until || !filter.places.empty();
  if (arguments.action == LettersAction::kRedeliver && any == arguments.everything) {
    *why = "redeliver needs to be told which: --subscription, --reason, --since, --until, --offset; or --all";
    return std::nullopt;
  }
  return filter;
}

/// A message on its way to a subscription, whatever record it is in.
using Message = std::tuple<std::string, TopicPartition, Offset>;

class DeadLetters {
 public:
  DeadLetters(const FleetFiles& fleet, const DeadLettersArguments& arguments, const LetterFilter& filter,
              std::ostream& out, std::ostream& err)
      : fleet_(fleet),
        arguments_(arguments),
        filter_(filter),
        config_(kafka::ClientConfig::From(fleet.deployment)),
        topic_(fleet.deployment.fleet + ".dead-letters"),
        out_(out),
        err_(err) {}

  int Run() {
    for (const auto& fault : config_.Faults()) {
      err_ << fault << '\n';
      return kCannot;
    }
    std::string error;
    cluster_ = kafka::ClusterQuestions::Create(config_, kKafka, error);
    if (!cluster_) return Cannot(error);
    return arguments_.action == LettersAction::kRedeliver ? Redeliver() : Show();
  }

 private:
  int Cannot(const std::string& why) {
    err_ << "posthorn dead-letters: " << why << '\n';
    return kCannot;
  }

  /// Every record of the topic that the filter wants; of a topic that is not there none. False: `Cannot` was said.
  bool Read(const std::string& topic, const std::function<void(std::int32_t, const delivery::RecordPtr&)>& visit,
            const LetterFilter& within) {
    const auto partitions = cluster_->Partitions(topic);
    if (!partitions) return Cannot(cluster_->last_error()) == kDone;
    std::vector<std::optional<Offset>> since(static_cast<std::size_t>(*partitions));
    if (within.since && *partitions > 0) {
      auto found = cluster_->FirstSince(topic, *partitions, *within.since);
      if (!found) return Cannot(cluster_->last_error()) == kDone;
      since = std::move(*found);
    }
    std::vector<kafka::Section> sections;
    for (std::int32_t i = 0; i < *partitions; ++i) {
      if (within.since && !since[static_cast<std::size_t>(i)]) continue;  // nothing as new
      const auto bounds = cluster_->Bounds({topic, i});
      if (!bounds) return Cannot(cluster_->last_error()) == kDone;
      kafka::Section section{{topic, i}, since[static_cast<std::size_t>(i)].value_or(bounds->first), bounds->second};
      if (!within.places.empty()) {
        auto first = section.end;
        auto last = section.first;
        for (const auto& [partition, offset] : within.places) {
          if (partition != i) continue;
          first = std::min(first, offset);
          last = std::max(last, offset + 1);
        }
        section.first = std::max(section.first, first);
        section.end = std::min(section.end, last);
      }
      sections.push_back(std::move(section));
    }
    std::string error;
    const bool read = kafka::ReadSections(
        config_, sections, kKafka,
        [&](const TopicPartition& partition, const delivery::RecordPtr& record) {
          visit(partition.partition, record);
          return true;
        },
        error);
    return read || Cannot(error) == kDone;
  }

  bool ReadLetters(const std::function<void(const FoundLetter&)>& visit) {
    return Read(
        topic_,
        [&](std::int32_t partition, const delivery::RecordPtr& record) {
          const FoundLetter letter(partition, record);
          if (filter_.Matches(letter)) visit(letter);
        },
        filter_);
  }

  int Show() {
    const bool whole = arguments_.action == LettersAction::kShow;
    std::uint64_t count = 0;
    const bool read = ReadLetters([&](const FoundLetter& letter) {
      ++count;
      if (arguments_.json) {
        out_ << ToJson(letter, whole) << '\n';
      } else if (whole) {
        out_ << ToText(letter);
      } else {
        out_ << ToLine(letter) << '\n';
      }
    });
    if (!arguments_.json && read) out_ << count << (count == 1 ? " dead letter\n" : " dead letters\n");
    return read ? kDone : kCannot;
  }

  /// What stands in the retry topic because of an earlier `redeliver`, as far as it is still there.
  bool ReadRedelivered(std::set<Message>& messages) {
    return Read(delivery::RetryTopic(fleet_.deployment.fleet),
                [&](std::int32_t, const delivery::RecordPtr& record) {
                  const auto decoded = delivery::DecodeRetryHeaders(record->headers());
                  const auto* headers = std::get_if<delivery::RetryHeaders>(&decoded);
                  if (headers == nullptr || !headers->state.fresh_ttl) return;
                  messages.emplace(headers->state.subscription, headers->state.source, headers->state.source_offset);
                },
                {});
  }

  int Redeliver() {
    const auto retry_topic = delivery::RetryTopic(fleet_.deployment.fleet);
    std::set<Message> before;
    if (!ReadRedelivered(before)) return kCannot;
    std::string error;
    const auto producer = kafka::Producer::Create(config_, error);
    if (!producer) return Cannot(error);
    std::set<Message> taken;
    std::uint64_t again = 0;
    std::map<std::string, std::uint64_t> skipped;
    std::optional<std::int32_t> partitions;  // of the retry topic, made when the first is to be sent
    bool sent = true;
    const bool read = ReadLetters([&](const FoundLetter& letter) {
      const auto* facts = letter.facts();
      if (facts == nullptr) {
        ++skipped["no dead letter of Posthorn's"];
      } else if (fleet_.Find(facts->subscription) == nullptr) {
        ++skipped["the configuration has no subscription " + facts->subscription];
      } else if (const Message message{facts->subscription, facts->source, facts->source_offset};
                 !taken.insert(message).second) {
        ++skipped["the same message for the same subscription, found twice"];
      } else {
        const bool was_before = before.count(message) != 0;
        again += was_before ? 1 : 0;
        Say(letter, was_before);
        if (arguments_.dry_run || !sent) return;
        if (!partitions) {
          const auto options = kafka::RetryTopicOptions::From(fleet_.deployment);
          partitions = kafka::MakeRetryTopic(config_, options, kKafka, error);
        }
        sent = partitions && Send(*producer, retry_topic, *partitions, letter, *facts);
      }
    });
    if (!producer->Flush(kKafka) || !sent) {
      return Cannot("not everything could be written to " + retry_topic + ": " +
                    (partitions ? producer->last_error() : error));
    }
    if (!read) return kCannot;
    for (const auto& [why, count] : skipped) err_ << "left out: " << count << ", " << why << '\n';
    if (!arguments_.json) {
      out_ << taken.size() << (arguments_.dry_run ? " to redeliver; nothing was done (--dry-run)" : " redelivered");
      if (again != 0) out_ << "; " << again << " of them for at least the second time";
      out_ << '\n';
    }
    return kDone;
  }

  void Say(const FoundLetter& letter, bool was_before) {
    if (arguments_.json) {
      out_ << ToJson(letter, false) << '\n';
    } else if (arguments_.dry_run) {
      out_ << ToLine(letter) << (was_before ? "  (redelivered before)\n" : "\n");
    }
  }

  bool Send(kafka::Producer& producer, const std::string& topic, std::int32_t partitions, const FoundLetter& letter,
            const kafka::DeadLetterFacts& facts) {
    std::vector<delivery::HeaderView> own;
    for (const auto& header : letter.record->headers()) {
      if (!kafka::IsDeadLetterHeader(header.name)) own.push_back(header);
    }
    // When it was published a dead letter does not say; started anew that is not asked for either.
    const auto state = delivery::StartAnew(facts.subscription, facts.source, facts.source_offset, -1);
    kafka::OutgoingRecord record;
    record.topic = topic;
    record.partition = delivery::RetryPartition(facts.subscription, partitions);
    record.key = letter.record->key();
    record.value = letter.record->value();
    record.headers = delivery::EncodeRetryHeaders(state, own);
    return producer.Send(record);
  }

  const FleetFiles& fleet_;
  const DeadLettersArguments& arguments_;
  const LetterFilter& filter_;
  const kafka::ClientConfig config_;
  const std::string topic_;
  std::ostream& out_;
  std::ostream& err_;
  std::unique_ptr<kafka::ClusterQuestions> cluster_;
};

}  // namespace

int RunDeadLetters(const DeadLettersArguments& arguments, const config::Capabilities& capabilities, std::ostream& out,
                   std::ostream& err) {
  std::string why;
  const auto filter = Parse(arguments, runtime::SystemClock().Read().wall, &why);
  if (!filter) {
    err << "posthorn dead-letters: " << why << '\n';
    return kUsage;
  }
  runtime::ConfigureLog(runtime::LogLevel::kWarning, false);
  const auto fleet = LoadFleetFiles(arguments.files, capabilities, err);
  if (!fleet) return kCannot;
  return DeadLetters(*fleet, arguments, *filter, out, err).Run();
}

void AddDeadLettersCommand(CLI::App& app, int& exit_code, const config::Capabilities& capabilities) {
  CLI::App* letters = app.add_subcommand("dead-letters", "List, show or redeliver what was given up");
  letters->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, LettersAction action) {
    CLI::App* command = letters->add_subcommand(name, what);
    auto arguments = std::make_shared<DeadLettersArguments>();
    arguments->action = action;
    AddFleetFilesOptions(*command, arguments->files);
    command->add_option("--subscription", arguments->subscription, "Only those of this subscription");
    command->add_option("--reason", arguments->reason,
                        "Only those given up so: expired, attempts, rejected, gone, too-large, filtered-error");
    command->add_option("--since", arguments->since,
                        "Only those written since then: 2026-11-21T08:15:30Z, or how long ago: 10min, 36h");
    command->add_option("--until", arguments->until, "Only those written before");
    command
        ->add_option("--offset", arguments->places,
                     "Only the one at offset O of partition P of the dead-letter topic, as `list` shows them (P:O); as "
                     "often as needed")
        ->allow_extra_args(false);
    command->add_flag("--json", arguments->json, "One JSON object per line");
    if (action == LettersAction::kRedeliver) {
      command->add_flag("--dry-run", arguments->dry_run, "Say which, and do nothing");
      command->add_flag("--all", arguments->everything, "All there are");
    }
    command->footer(
        action == LettersAction::kRedeliver
            ? "Each goes to the fleet's retry topic and from there to its subscription, under its max-rate, with its\n"
              "webhook-id, with a new TTL and no attempts. The dead letter stays where it is: redelivering it again "
              "sends\n"
              "it again (--dry-run says of which that is known).\n"
              "Exit code: 0 done, 1 cannot and why on stderr, 2 wrong usage."
            : "Exit code: 0 done, 1 cannot and why on stderr, 2 wrong usage.");
    command->callback([arguments, capabilities, &exit_code] {
      exit_code = RunDeadLetters(*arguments, capabilities, std::cout, std::cerr);
    });
  };
  add("list", "One line each", LettersAction::kList);
  add("show", "With headers, key and value", LettersAction::kShow);
  add("redeliver", "Hand them to their subscriptions again", LettersAction::kRedeliver);
}

}  // namespace posthorn::cli
