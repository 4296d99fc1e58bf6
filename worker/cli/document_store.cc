#include "worker/cli/document_store.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <thread>
#include <utility>

namespace posthorn::cli {
namespace {

constexpr std::chrono::milliseconds kTopicAnswer{10'000};
constexpr std::chrono::milliseconds kLookAgain{10};
constexpr std::chrono::seconds kPatienceWithOthers{60};

/// user@host, for the history.
std::string Author() {
  std::string author = "?";
  if (const auto* entry = getpwuid(geteuid()); entry != nullptr) author = entry->pw_name;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) author += "@" + std::string(host);
  return author;
}

}  // namespace

std::optional<DocumentStore> DocumentStore::Open(const config::Deployment& deployment,
                                                 const config::Capabilities& capabilities, std::ostream& err) {
  if (deployment.source.kind != config::SourceKind::kKafkaTopic) {
    err << "the deployment's subscriptions come from " << config::ToString(deployment.source)
        << ", not from a Kafka topic (`subscriptions: { kafka_topic: { name: ... } }`)\n";
    return std::nullopt;
  }
  auto client = kafka::ClientConfig::ForSubscriptions(deployment);
  const auto faults = client.Faults();
  for (const auto& fault : faults) err << fault << '\n';
  if (!faults.empty()) return std::nullopt;
  return DocumentStore(std::move(client), deployment.source.kafka_topic.name, capabilities, err);
}

void DocumentStore::Say(const std::string& why) { *err_ << "posthorn subscriptions: " << why << '\n'; }

std::optional<kafka::DocumentLog> DocumentStore::Read() {
  std::string error;
  auto log = kafka::ReadDocumentTopic(config_, topic_, kTopicAnswer, error);
  if (!log) Say(error);
  return log;
}

/// Unset: what is wrong was said.
std::optional<JudgedChange> DocumentStore::JudgeNow(const kafka::DocumentLog& log, const Change& change) {
  const auto now = runtime::SystemClock().Read().wall;
  ChangeRequest request = change.request;
  if (change.effective_in) request.effective_at = now + *change.effective_in;
  auto judged = Judge(log.Documents(), request, capabilities_, now);
  if (!judged.conflict.empty()) {
    Say(judged.conflict);
    return std::nullopt;
  }
  if (!judged.faults.empty()) {
    *err_ << config::ToString(judged.faults) << judged.faults.size()
          << (judged.faults.size() == 1 ? " fault" : " faults") << ", nothing was written\n";
    return std::nullopt;
  }
  return judged;
}

/// Whether it was written shows once nobody's transaction is open any more.
DocumentStore::Attempt DocumentStore::Settle(const JudgedChange& judged, std::optional<Changed>& result) {
  std::string error;
  const auto writer = kafka::DocumentWriter::Create(config_, topic_, Author(), error);
  auto log = writer != nullptr && writer->Begin(kTopicAnswer, error) ? Read() : std::nullopt;
  if (!log) {
    Say("Kafka has not answered: look whether the change is there (" + error + ")");
    return Attempt::kFailed;
  }
  const auto documents = log->Documents();
  const bool there = std::all_of(judged.changes.begin(), judged.changes.end(), [&](const auto& change) {
    const auto found = documents.find(change.first);
    return change.second ? found != documents.end() && found->second == *change.second : found == documents.end();
  });
  if (!there) return Attempt::kAgain;
  result = Changed{judged, std::move(*log)};
  return Attempt::kWritten;
}

DocumentStore::Attempt DocumentStore::TryOnce(const Change& change, std::optional<Changed>& result) {
  std::string error;
  const auto cannot = [&] {
    Say(error);
    return Attempt::kFailed;
  };
  const auto writer = kafka::DocumentWriter::Create(config_, topic_, Author(), error);
  if (writer == nullptr || !writer->Begin(kTopicAnswer, error)) return cannot();
  auto log = Read();
  if (!log) return Attempt::kFailed;
  auto judged = JudgeNow(*log, change);
  if (!judged) return Attempt::kFailed;
  if (judged->changes.empty()) {
    result = Changed{std::move(*judged), std::move(*log)};
    return Attempt::kWritten;
  }
  switch (writer->Commit(judged->changes, kTopicAnswer, error)) {
    case kafka::DocumentWriter::Result::kWritten:
      break;
    case kafka::DocumentWriter::Result::kOvertaken:
      return Attempt::kAgain;
    case kafka::DocumentWriter::Result::kFailed:
      return cannot();
    case kafka::DocumentWriter::Result::kUnknown:
      return Settle(*judged, result);
  }
  log = ReadBack(judged->changes, log->newest);
  if (!log) {
    Say("the change is written; what is in force now could not be read");
    return Attempt::kFailed;
  }
  result = Changed{std::move(*judged), std::move(*log)};
  return Attempt::kWritten;
}

/// A commit is answered before the broker shows to readers what it has committed.
std::optional<kafka::DocumentLog> DocumentStore::ReadBack(const kafka::DocumentWriter::Changes& changes,
                                                          delivery::Offset before) {
  const auto deadline = std::chrono::steady_clock::now() + kTopicAnswer;
  while (true) {
    auto log = Read();
    const auto shown = [&](const auto& change) {
      return std::ranges::any_of(log->changes, [&](const kafka::DocumentChange& one) {
        return one.offset > before && one.name == change.first && one.text == change.second;
      });
    };
    if (!log || std::ranges::all_of(changes, shown) || std::chrono::steady_clock::now() >= deadline) return log;
    std::this_thread::sleep_for(kLookAgain);  // brokers tell nobody
  }
}

std::optional<DocumentStore::Changed> DocumentStore::Apply(const Change& change) {
  // First without shutting anybody out, and without making a topic for what is refused.
  auto log = Read();
  auto judged = log ? JudgeNow(*log, change) : std::nullopt;
  if (!judged) return std::nullopt;
  if (change.dry_run || judged->changes.empty()) return Changed{std::move(*judged), std::move(*log)};
  std::string error;
  if (!kafka::MakeDocumentTopic(config_, topic_, change.replication, kTopicAnswer, error)) {
    Say(error);
    return std::nullopt;
  }
  std::minstd_rand random(std::random_device{}());
  std::optional<Changed> result;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + kPatienceWithOthers;
  for (int overtaken = 1; Clock::now() < deadline; ++overtaken) {
    const auto begun = Clock::now();
    if (TryOnce(change, result) != Attempt::kAgain) return result;
    const auto took = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - begun);
    std::this_thread::sleep_for(kafka::PauseAfterOvertaken(overtaken, took, random));
  }
  Say("others write to " + topic_ + " at the same time, again and again: nothing was written");
  return std::nullopt;
}

}  // namespace posthorn::cli
