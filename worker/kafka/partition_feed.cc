#include "worker/kafka/partition_feed.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "worker/kafka/client.h"
#include "worker/kafka/record_copy.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

std::int64_t SteadyNow() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

QueueLimits LimitsOf(const rd_kafka_conf_t* conf) {
  QueueLimits limits;
  limits.messages = std::stoul(ReadBack(conf, "queued.min.messages").value_or("100000"));
  limits.bytes = std::stoul(ReadBack(conf, "queued.max.messages.kbytes").value_or("65536")) * 1024;
  limits.kick = !ReadBack(conf, "fetch.queue.backoff.ms");
  return limits;
}

QueueFeed::QueueFeed(FeedHost& host, rd_kafka_t* client, delivery::TopicPartition partition, QueuePtr queue,
                     QueueLimits limits)
    : host_(host),
      client_(client),
      partition_(std::move(partition)),
      queue_(std::move(queue)),
      limits_(limits),
      read_at_(SteadyNow()) {
  rd_kafka_queue_cb_event_enable(queue_.get(), &QueueFeed::OnQueueEvent, this);
}

QueueFeed::~QueueFeed() { Close(); }

void QueueFeed::OnQueueEvent(rd_kafka_t* /*client*/, void* self) noexcept {
  // librdkafka holds the queue's lock here: nothing of it may be called.
  auto* feed = static_cast<QueueFeed*>(self);
  feed->unread_.store(true, std::memory_order_relaxed);
  feed->Wake();
}

void QueueFeed::Wake() const {
  std::shared_ptr<const std::function<void()>> wake;
  {
    const std::lock_guard lock(wake_mutex_);
    wake = wake_;
  }
  if (wake != nullptr && *wake) (*wake)();
}

void QueueFeed::OnReadable(std::function<void()> wake) {
  {
    const std::lock_guard lock(wake_mutex_);
    wake_ = std::make_shared<const std::function<void()>>(std::move(wake));
  }
  // What came before nobody was told of.
  if (!closed() && rd_kafka_queue_length(queue_.get()) > 0) Wake();
}

void QueueFeed::SeekTo(delivery::Offset offset) {
  if (closed()) return;
  expected_ = offset;
  host_.RequestSeek(shared_from_this(), offset, ++seeks_asked_);
}

void QueueFeed::SeekDone(std::uint64_t ticket) {
  seeks_done_.store(ticket, std::memory_order_release);
  // The queue was not read meanwhile, so what arrives may go unannounced.
  Wake();
}

void QueueFeed::Close() {
  if (closed_.exchange(true, std::memory_order_acq_rel)) return;
  rd_kafka_queue_cb_event_enable(queue_.get(), nullptr, nullptr);
  queue_.reset();
  const std::lock_guard lock(wake_mutex_);
  wake_.reset();
}

std::size_t QueueFeed::Read(std::size_t max_records, std::size_t max_bytes, std::vector<delivery::RecordPtr>& out) {
  if (closed() || seeks_done_.load(std::memory_order_acquire) != seeks_asked_) return 0;
  std::size_t appended = 0;
  std::size_t bytes = 0;
  while (appended < max_records && (appended == 0 || bytes < max_bytes)) {
    const MessagePtr message(rd_kafka_consume_queue(queue_.get(), 0));
    if (message == nullptr) {
      unread_.store(false, std::memory_order_relaxed);
      break;
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      HandleError(*message);
      continue;
    }
    if (message->offset != expected_) NoteGap(message->offset);
    out.push_back(CopyRecord(*message, headers_));
    bytes += out.back()->memory();
    ++appended;
    expected_ = message->offset + 1;
  }
  if (appended > 0) AfterRead(appended, bytes);
  return appended;
}

void QueueFeed::AfterRead(std::size_t appended, std::size_t bytes) {
  read_at_.store(SteadyNow(), std::memory_order_relaxed);
  std::int64_t low = -1;
  std::int64_t high = -1;
  if (rd_kafka_get_watermark_offsets(client_, partition_.topic.c_str(), partition_.partition, &low, &high) ==
      RD_KAFKA_RESP_ERR_NO_ERROR)
    HearLogEnd(std::max(high, expected_));
  if (!limits_.kick) return;
  // librdkafka before 2.2 sleeps up to 1 s when it has found its queues full, and reading does not wake it. Whether it
  // sleeps cannot be asked; that the queue was near its limits and is half empty now is as near as one gets.
  average_bytes_ = (average_bytes_ * 7 + bytes / appended) / 8 + 1;
  const std::size_t length = rd_kafka_queue_length(queue_.get());
  longest_ = std::max(longest_, length + appended);
  const std::size_t full = std::min(limits_.messages, limits_.bytes / average_bytes_ + 1);
  if (longest_ >= full / 2 && length < longest_ / 2) {
    longest_ = length;
    host_.RequestKick(partition_);
  }
}

void QueueFeed::NoteGap(delivery::Offset offset) {
  std::int64_t low = -1;
  std::int64_t high = -1;
  rd_kafka_get_watermark_offsets(client_, partition_.topic.c_str(), partition_.partition, &low, &high);
  if (offset < expected_) {
    runtime::Log(runtime::LogLevel::kError, "position beyond the end of the log: topic cut off or made anew",
                 {{"topic", partition_.topic},
                  {"partition", partition_.partition},
                  {"position", expected_},
                  {"goes on at", offset}});
    return;
  }
  // Compaction and transactions leave gaps too; only what lies before the log's start is gone.
  if (low > expected_ && offset >= low)
    runtime::Log(runtime::LogLevel::kError, "messages gone before they were read: the topic's retention was faster",
                 {{"topic", partition_.topic},
                  {"partition", partition_.partition},
                  {"position", expected_},
                  {"earliest", low},
                  {"lost", low - expected_}});
}

void QueueFeed::HandleError(const rd_kafka_message_t& message) {
  if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return;
  const auto silent = errors_.Admit(message.err, std::chrono::steady_clock::now());
  if (!silent) return;
  runtime::Log(runtime::LogLevel::kWarning, "fetching failed, goes on by itself",
               {{"topic", partition_.topic},
                {"partition", partition_.partition},
                {"error", rd_kafka_err2name(message.err)},
                {"text", rd_kafka_message_errstr(&message)},
                {"not logged", *silent}});
}

void QueueFeed::HearLogEnd(delivery::Offset end) {
  if (end < 0) return;
  log_end_.store(end, std::memory_order_relaxed);
}

bool QueueFeed::UnreadFor(std::chrono::nanoseconds time) const {
  return unread_.load(std::memory_order_relaxed) &&
         SteadyNow() - read_at_.load(std::memory_order_relaxed) > time.count();
}

}  // namespace posthorn::kafka
