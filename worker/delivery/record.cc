#include "worker/delivery/record.h"

#include <cstring>

#include "worker/delivery/retry_record.h"

namespace posthorn::delivery {
namespace {

std::string_view Append(char*& at, std::string_view text) {
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  const std::string_view copy(at, text.size());
  at += text.size();
  return copy;
}

}  // namespace

std::shared_ptr<const Record> Record::Copy(const Parts& parts) {
  std::size_t bytes = parts.key.value_or("").size() + parts.value.value_or("").size();
  const std::size_t header_count = parts.headers == nullptr ? 0 : parts.headers->size();
  for (std::size_t i = 0; i < header_count; ++i) {
    const auto& header = (*parts.headers)[i];
    bytes += header.name.size() + header.value.value_or("").size();
  }
  const std::shared_ptr<Record> record(new Record());
  record->offset_ = parts.offset;
  record->timestamp_ms_ = parts.timestamp_ms;
  record->retry_ = parts.retry;
  record->bytes_.reset(new char[bytes + 1]);
  char* at = record->bytes_.get();
  if (parts.key) record->key_ = Append(at, *parts.key);
  if (parts.value) record->value_ = Append(at, *parts.value);
  record->headers_.reserve(header_count);
  for (std::size_t i = 0; i < header_count; ++i) {
    const auto& header = (*parts.headers)[i];
    HeaderView copy;
    copy.name = Append(at, header.name);
    if (header.value) copy.value = Append(at, *header.value);
    record->headers_.push_back(copy);
  }
  record->memory_ = sizeof(Record) + bytes + header_count * sizeof(HeaderView) + 64;  // 64: allocator and counts
  if (record->retry_) record->memory_ += sizeof(RetryState) + 64;
  return record;
}

Record::~Record() {
  if (account_) account_->Release(memory_);
}

void Record::ChargeTo(std::shared_ptr<MemoryAccount> account) const {
  account->Add(memory_);
  if (account_) account_->Release(memory_);
  account_ = std::move(account);
}

Offset Record::source_offset() const { return retry_ ? retry_->source_offset : offset_; }

const TopicPartition& Record::source(const TopicPartition& read_from) const {
  return retry_ ? retry_->source : read_from;
}

const HeaderView* Record::FindHeader(std::string_view name) const {
  for (auto it = headers_.rbegin(); it != headers_.rend(); ++it) {
    if (it->name == name) return &*it;
  }
  return nullptr;
}

}  // namespace posthorn::delivery
