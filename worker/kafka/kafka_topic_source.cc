#include "worker/kafka/kafka_topic_source.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "config/load.h"
#include "worker/kafka/client.h"
#include "worker/kafka/cluster_questions.h"
#include "worker/kafka/document_topic.h"
#include "worker/kafka/record_copy.h"
#include "worker/kafka/steady.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using runtime::Log;
using runtime::LogLevel;
using runtime::WallTime;

constexpr auto kOneQuestion = 500ms;  // with one question
constexpr auto kTryAgain = 200ms;
constexpr auto kCheckEvery = 2s;
constexpr int kPollLength = 100;  // ms
// One question without an answer is a busy broker, not news.
constexpr int kUnansweredToTell = 2;
// librdkafka 2.0 never gets to the end of destroying a client whose partition was deleted under it.
constexpr auto kEndPatience = 1s;

/// What was read of one topic from its beginning on.
struct Reading {
  std::map<std::string, std::string> documents;
  Offset next = 0;     // to read
  Offset newest = -1;  // of the records
  std::int64_t newest_ms = -1;
  std::uint64_t foreign = 0;
  bool held = false;    // a document, once
  bool at_end = false;  // of what is committed
  bool changed = true;  // since it was published

  void Take(const rd_kafka_message_t& message, const delivery::Record& record) {
    next = message.offset + 1;
    newest = message.offset;
    newest_ms = std::max(newest_ms, record.timestamp_ms());
    at_end = false;
    auto change = ReadDocumentChange(record);
    if (!change) {
      ++foreign;
      return;
    }
    held = true;
    changed = true;
    Apply(std::move(*change), &documents);
  }
};

}  // namespace

class KafkaTopicSource::Impl {
 public:
  Impl(const ClientConfig& config, std::string topic) : config_(config), topic_(std::move(topic)) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_.store(true);
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  config::Outcome Next(const std::string& have, std::chrono::milliseconds wait, const std::stop_token& stop) {
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
    std::unique_lock lock(mutex_);
    const auto news = [&] { return failure_ != told_ || (!revision_.empty() && revision_ != have); };
    changed_.wait_for(lock, stop, wait, news);
    if (stop.stop_requested()) return config::Stopped();
    const bool failed = failure_ != told_ && !failure_.empty();
    told_ = failure_;
    if (failed) return config::Failed{failure_, true, true};
    if (!revision_.empty() && revision_ != have) return config::Changed{{revision_, number_, files_}};
    if (!failure_.empty()) return config::Failed{failure_, true, true};
    return config::Unchanged();
  }

  std::string Describe() const { return "Kafka topic " + topic_; }
  std::uint64_t ignored() const { return ignored_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  void Run();
  bool AwaitTopic(ClusterQuestions& cluster);
  void Follow(ClusterQuestions& cluster);
  bool Serve(const rd_kafka_message_t& message, Reading& reading);
  bool IsStillTheSame(ClusterQuestions& cluster, Reading& reading);
  void Publish(Reading& reading);
  void Fail(const std::string& why);
  void Recovered() { Fail(""); }
  void Unanswered(const ClusterQuestions& cluster) {
    if (++unanswered_ < kUnansweredToTell) return;
    Fail((cluster.denied() ? "Kafka denies it to this user: " : "Kafka does not answer: ") + cluster.last_error());
  }
  void Wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [this] { return stopping(); });
  }

  const ClientConfig config_;
  const std::string topic_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::string> files_;
  std::string revision_;  // empty: not read yet
  std::string number_;
  std::string failure_;  // empty: the topic answers
  std::string told_;     // the failure that Next has returned
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> ignored_{0};

  // The thread's.
  int unanswered_ = 0;
  std::optional<Offset> known_newer_;  // see IsStillTheSame
  std::vector<delivery::HeaderView> scratch_;
  std::thread thread_;
};

void KafkaTopicSource::Impl::Fail(const std::string& why) {
  if (why.empty()) unanswered_ = 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(failure_, why) == why) return;
  }
  changed_.notify_all();
}

void KafkaTopicSource::Impl::Run() {
  std::string error;
  std::unique_ptr<ClusterQuestions> cluster;
  while (!stopping()) {
    if (cluster == nullptr) cluster = ClusterQuestions::Create(config_, kOneQuestion, error);
    if (cluster == nullptr) {
      Fail(error);
      Wait(kTryAgain);
    } else if (AwaitTopic(*cluster)) {
      Follow(*cluster);
      Wait(kTryAgain);  // whatever ends a reading at once must not make clients without end
    }
  }
}

/// False: stopping.
bool KafkaTopicSource::Impl::AwaitTopic(ClusterQuestions& cluster) {
  for (; !stopping(); Wait(kTryAgain)) {
    const auto partitions = cluster.Partitions(topic_);
    if (!partitions) {
      Unanswered(cluster);
    } else if (*partitions == 0) {
      Fail("the topic " + topic_ + " is not there (`posthorn subscriptions put` makes it)");
    } else if (const auto unfit = WhyUnfit(cluster, topic_, *partitions, !config_.embedded()); !unfit.empty()) {
      Fail(unfit);
    } else {
      return true;
    }
  }
  return false;
}

/// Reads from the beginning on. Returns when the topic has to be looked for and read anew, or was stopped.
void KafkaTopicSource::Impl::Follow(ClusterQuestions& cluster) {
  std::string error;
  auto client = NewClient(config_, Role::kDocuments, error);
  if (client == nullptr) return Fail(error);
  rd_kafka_poll_set_consumer(client.get());
  const auto list = NewPartitionList(1);
  rd_kafka_topic_partition_list_add(list.get(), topic_.c_str(), 0)->offset = RD_KAFKA_OFFSET_BEGINNING;
  if (const auto failure = rd_kafka_assign(client.get(), list.get()); failure != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Fail(rd_kafka_err2str(failure));
  }
  Reading reading;
  Time check_at = Now() + kCheckEvery;
  bool same = true;
  while (!stopping() && same) {
    const MessagePtr message(rd_kafka_consumer_poll(client.get(), kPollLength));
    if (message != nullptr) same = Serve(*message, reading);
    if (!same || Now() < check_at) continue;
    same = IsStillTheSame(cluster, reading);
    check_at = Now() + kCheckEvery;
  }
  // Also one that is stopped may have lost its topic a moment ago.
  DestroyWithin(kEndPatience, std::move(client), "the reader of the subscriptions' topic");
}

/// False: what was read is not in the topic any more.
bool KafkaTopicSource::Impl::Serve(const rd_kafka_message_t& message, Reading& reading) {
  switch (message.err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR: {
      const auto record = CopyRecord(message, scratch_);
      const auto before = reading.foreign;
      reading.Take(message, *record);
      if (reading.foreign == before) return true;
      ignored_.fetch_add(1, std::memory_order_relaxed);
      if (reading.foreign == 1) {
        Log(LogLevel::kWarning,
            "a record of the subscriptions' topic is no document, ignored; further ones are counted",
            {{"topic", topic_}, {"offset", message.offset}});
      }
      return true;
    }
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
      reading.next = std::max<Offset>(reading.next, message.offset);
      reading.at_end = true;
      Publish(reading);
      return true;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      Fail("the topic " + topic_ + " may not be read by this user: " + rd_kafka_message_errstr(&message));
      return true;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return false;
    default:
      return true;  // mends by itself; whether the cluster answers is asked for anyway
  }
}

/// Compaction leaves offsets as they are, so a log that ends before what was read is another one. One that is as long
/// tells itself by a record that is newer than all that were read and lies among them. Where writers stamp records by
/// clocks that differ, so may the end of a transaction; what a new reading has not changed is taken for that.
bool KafkaTopicSource::Impl::IsStillTheSame(ClusterQuestions& cluster, Reading& reading) {
  const auto partitions = cluster.Partitions(topic_);
  if (partitions && *partitions != 1) return false;
  const auto bounds = partitions ? cluster.Bounds({topic_, 0}) : std::nullopt;
  if (!bounds) {
    Unanswered(cluster);
    return true;
  }
  unanswered_ = 0;
  if (bounds->second < reading.next) return false;
  if (reading.newest_ms >= 0 && !config_.embedded()) {
    const WallTime after{std::chrono::milliseconds(reading.newest_ms + 1)};
    const auto since = cluster.FirstSince(topic_, 1, after);
    const auto newer = since ? since->front() : std::nullopt;
    if (!newer || *newer > reading.newest) {
      known_newer_.reset();
    } else if (newer != known_newer_) {
      known_newer_ = newer;
      return false;
    }
  }
  if (reading.at_end) Publish(reading);
  return true;
}

void KafkaTopicSource::Impl::Publish(Reading& reading) {
  // Whoever makes a topic has not written to it yet: not the wish to have no subscriptions.
  if (!reading.held) return Fail("the topic " + topic_ + " holds no document yet");
  Recovered();
  if (!std::exchange(reading.changed, false)) return;
  {
    const std::lock_guard lock(mutex_);
    files_ = reading.documents;
    revision_ = config::Digest(files_);
    number_ = reading.newest < 0 ? "" : std::to_string(reading.newest);
  }
  changed_.notify_all();
}

KafkaTopicSource::KafkaTopicSource(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KafkaTopicSource::~KafkaTopicSource() = default;

std::unique_ptr<KafkaTopicSource> KafkaTopicSource::Create(const ClientConfig& config, const std::string& topic,
                                                           std::string& error) {
  if (BuildConf(config, Role::kDocuments, error) == nullptr) return nullptr;
  return std::unique_ptr<KafkaTopicSource>(new KafkaTopicSource(std::make_unique<Impl>(config, topic)));
}

config::Outcome KafkaTopicSource::Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) {
  return impl_->Next(have, wait, stop);
}

std::string KafkaTopicSource::Describe() const { return impl_->Describe(); }
std::uint64_t KafkaTopicSource::Ignored() const { return impl_->ignored(); }

}  // namespace posthorn::kafka
