#include "worker/kafka/document_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/kafka/client.h"
#include "worker/kafka/document_topic.h"
#include "worker/kafka/produce.h"
#include "worker/kafka/steady.h"
#include "worker/kafka/watchdog.h"

namespace posthorn::kafka {
namespace {

// librdkafka's transactional calls go on where they were when they are called again after their time was over.
constexpr int kSlice = 1'000;  // ms
constexpr int kFlushSlice = 100;
constexpr std::chrono::milliseconds kLongestPause{10'000};
constexpr int kMostDoublings = 10;

bool MeansOvertaken(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
         code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH || code == RD_KAFKA_RESP_ERR_INVALID_TXN_STATE;
}

}  // namespace

struct DocumentWriter::Impl {
  std::string topic;
  std::string author;
  ClientPtr client;

  ~Impl() {
    const Watchdog watchdog("destroying the writer of the subscriptions' topic");
    client.reset();
  }

  /// `call(ms)` again and again while its error can be tried again.
  template <typename Call>
  ErrorPtr Insist(std::chrono::milliseconds patience, Call call) const {
    const Time deadline = Now() + patience;
    while (true) {
      ErrorPtr error(call(kSlice));
      if (error == nullptr || rd_kafka_error_is_retriable(error.get()) == 0 || Now() >= deadline) return error;
    }
  }
  /// Whether somebody else has begun: what ends the client for good is told by its own fatal error.
  bool Overtaken(rd_kafka_resp_err_t code) const {
    char text[512];
    const auto fatal = rd_kafka_fatal_error(client.get(), text, sizeof text);
    return MeansOvertaken(code) || MeansOvertaken(fatal);
  }
  /// Until all that was produced is with the broker, or never will be.
  void Flush(std::chrono::milliseconds patience) const {
    const Time deadline = Now() + patience;
    while (rd_kafka_flush(client.get(), kFlushSlice) != RD_KAFKA_RESP_ERR_NO_ERROR &&
           !Overtaken(RD_KAFKA_RESP_ERR_NO_ERROR) && Now() < deadline) {
    }
  }
  Result Failed(const ErrorPtr& failure, std::string& error) const {
    error = rd_kafka_error_string(failure.get());
    if (!Overtaken(rd_kafka_error_code(failure.get()))) return Result::kFailed;
    error = "somebody else writes to " + topic + " at the same time";
    return Result::kOvertaken;
  }
};

DocumentWriter::DocumentWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DocumentWriter::~DocumentWriter() = default;

std::unique_ptr<DocumentWriter> DocumentWriter::Create(const ClientConfig& config, const std::string& topic,
                                                       const std::string& author, std::string& error) {
  auto conf = BuildConf(config, Role::kDocumentWriter, error);
  if (conf == nullptr) return nullptr;
  rd_kafka_conf_set(conf.get(), "transactional.id", (topic + ".posthorn-writer").c_str(), nullptr, 0);
  auto impl = std::make_unique<Impl>();
  impl->topic = topic;
  impl->author = author;
  impl->client = NewClient(std::move(conf), Role::kDocumentWriter, error);
  if (impl->client == nullptr) return nullptr;
  return std::unique_ptr<DocumentWriter>(new DocumentWriter(std::move(impl)));
}

bool DocumentWriter::Begin(std::chrono::milliseconds patience, std::string& error) {
  auto* client = impl_->client.get();
  const auto failure = impl_->Insist(patience, [&](int ms) { return rd_kafka_init_transactions(client, ms); });
  if (failure == nullptr) return true;
  error = "no transaction can be begun: " + std::string(rd_kafka_error_string(failure.get()));
  return false;
}

DocumentWriter::Result DocumentWriter::Commit(const Changes& changes, std::chrono::milliseconds patience,
                                              std::string& error) {
  auto* client = impl_->client.get();
  if (const ErrorPtr failure(rd_kafka_begin_transaction(client)); failure != nullptr) {
    return impl_->Failed(failure, error);
  }
  const std::vector<std::pair<std::string, std::optional<std::string>>> headers{
      {std::string(kAuthorHeader), impl_->author}};
  for (const auto& [name, text] : changes) {
    ProduceRequest request;
    request.topic = impl_->topic.c_str();
    request.partition = 0;
    request.key = name;
    if (text) request.value = *text;
    request.headers = &headers;
    const auto failure = Produce(client, request);
    if (failure == nullptr) continue;
    // Not worth more than a try: the next Begin ends what is open.
    const ErrorPtr ignored(rd_kafka_abort_transaction(client, kSlice));
    return impl_->Failed(failure, error);
  }
  // Whoever is shut out before asking for the commit has written nothing.
  impl_->Flush(patience);
  const bool overtaken = impl_->Overtaken(RD_KAFKA_RESP_ERR_NO_ERROR);
  const auto failure = impl_->Insist(patience, [&](int ms) { return rd_kafka_commit_transaction(client, ms); });
  if (failure == nullptr) return Result::kWritten;
  if (rd_kafka_error_txn_requires_abort(failure.get()) != 0) {
    const ErrorPtr ignored(rd_kafka_abort_transaction(client, static_cast<int>(patience.count())));
    return impl_->Failed(failure, error);
  }
  if (rd_kafka_error_is_retriable(failure.get()) != 0) {
    error = rd_kafka_error_string(failure.get());
    return Result::kUnknown;
  }
  const auto result = impl_->Failed(failure, error);
  // The commit may have been done, and its answer lost before somebody else began.
  return result == Result::kOvertaken && !overtaken ? Result::kUnknown : result;
}

std::chrono::milliseconds PauseAfterOvertaken(int times, std::chrono::milliseconds attempt, std::minstd_rand& random) {
  const auto longest = std::min(attempt * (1 << std::clamp(times, 1, kMostDoublings)), kLongestPause);
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(0, longest.count())(random));
}

}  // namespace posthorn::kafka
