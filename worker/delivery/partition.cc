#include "worker/delivery/partition.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "worker/delivery/retry_record.h"
#include "worker/delivery/shard.h"
#include "worker/runtime/log.h"

namespace posthorn::delivery {
namespace {

constexpr std::size_t kReadBatch = 256;
constexpr std::size_t kReadBatchBytes = std::size_t{1} << 20;

}  // namespace

Partition::Partition(Shard& shard, std::shared_ptr<PartitionFeed> feed, std::shared_ptr<MemoryAccount> memory,
                     Offset start, ReaderPool* readers, std::size_t ring_records)
    : shard_(shard),
      readers_(readers != nullptr && readers->per_partition() > 0 ? readers : nullptr),
      ring_records_(ring_records),
      overlap_(ring_records / 8 + 1) {
  shared_.feed = std::move(feed);
  shared_.memory = std::move(memory);
  shared_.next_to_read = start;
}

Partition::~Partition() {
  while (!apart_.empty()) EndApart(*apart_.back()->lane);
}

// ---- who reads what

bool Partition::InSharedRing(Offset next) const {
  if (next == shared_.next_to_read) return true;
  const auto* first = shared_.ring.At(shared_.ring.begin());
  return first != nullptr && (*first)->offset() <= next && next < shared_.next_to_read;
}

void Partition::Join(Lane& lane) {
  const auto next = lane.next_to_take();
  const bool alone = std::none_of(lanes.begin(), lanes.end(), [&](const auto& other) { return ReadsShared(*other); });
  const bool in_ring = InSharedRing(next);
  if (alone) {
    // Nobody needs what lies between: with a long log it would be read for nothing.
    if (!in_ring) Rewind(next);
  } else if (!in_ring && next < shared_.next_to_read) {
    if (readers_ != nullptr) {
      MoveApart(lane, "far behind");
      return;
    }
    Rewind(next);
  }
  lane.Attach(shared_.ring, shared_.ring.Find(next), LaneReader::kShared);
  shard_.Touched(*this);
}

void Partition::Leave(Lane& lane) {
  EndApart(lane);
  lane.Detach();
  shard_.Touched(*this);
}

void Partition::Rewind(Offset to) {
  for (auto& lane : lanes) {
    if (ReadsShared(*lane)) to = std::min(to, lane->next_to_take());
  }
  shared_.ring.Clear();
  for (auto& lane : lanes) {
    if (ReadsShared(*lane)) lane->Attach(shared_.ring, shared_.ring.end(), LaneReader::kShared);
  }
  shared_.feed->SeekTo(to);
  shared_.next_to_read = to;
  shared_.readable = true;
  shard_.Touched(*this);
}

std::size_t Partition::MostHeldByLane() const {
  // A third: with three that are stuck (each halves what the next one finds) there is still room for the others.
  return lanes.size() < 2 || readers_ == nullptr ? std::numeric_limits<std::size_t>::max() : shared_.memory->Part() / 3;
}

// ---- refilling

/// How far along the stream a lane is: its cursor, or beyond the ring when it has taken more than was read.
Partition::Sequence Partition::PositionOf(const Lane& lane) const {
  const auto ahead = lane.next_to_take() - shared_.next_to_read;
  return ahead < 0 ? lane.cursor() : shared_.ring.end() + static_cast<Sequence>(ahead);
}

Partition::Survey Partition::Look() const {
  Survey seen;
  seen.slowest = shared_.ring.end();
  for (const auto& lane : lanes) {
    if (!ReadsShared(*lane)) continue;
    seen.anybody = true;
    seen.slowest = std::min(seen.slowest, lane->cursor());
    seen.least_next = std::min(seen.least_next, lane->next_to_take());
    if (readers_ == nullptr || !lane->HasRoom()) continue;
    if (const auto position = PositionOf(*lane); seen.first == nullptr || position > seen.front) {
      seen.first = lane.get();
      seen.front = position;
    }
  }
  return seen;
}

void Partition::TrimShared(Sequence slowest) {
  const auto end = shared_.ring.end();
  const Sequence overlap = apart_.empty() || shared_.memory->Room() == 0 ? 0 : overlap_;
  shared_.ring.TrimBefore(std::min(slowest, end - std::min(end, overlap)));
}

void Partition::Refill(const runtime::Now& now) {
  if (!apart_.empty()) BringBack();
  auto seen = Look();
  TrimShared(seen.slowest);
  if (seen.first != nullptr && lanes.size() > 1 && Separate(seen, now)) {
    seen = Look();
    TrimShared(seen.slowest);
  }
  if (seen.anybody) {
    // What lies before was taken by everybody who reads here.
    if (seen.least_next - shared_.next_to_read >= static_cast<Offset>(ring_records_)) {
      Rewind(seen.least_next);
      seen.slowest = shared_.ring.end();
    }
    if (Fill(shared_, seen.slowest) > 0) {
      for (auto& lane : lanes) {
        if (ReadsShared(*lane)) shard_.Wake(*lane);
      }
    }
  }  // else: paused or no subscription yet: what is unread stays in the feed
  if (apart_.empty()) return;
  for (const auto& apart : apart_) {
    auto& [lane, stream, turn_began, first_read] = *apart;
    stream.ring.TrimBefore(lane->cursor());
    if (Fill(stream, stream.ring.begin()) == 0) continue;
    if (!first_read) first_read = now.steady;
    shard_.Wake(*lane);
  }
  GiveTurns(now);
}

bool Partition::IsFullFor(const Lane& lane) const {
  for (const auto& apart : apart_) {
    if (apart->lane == &lane) return apart->stream.memory->Room() == 0;
  }
  return shared_.memory->Room() == 0;
}

/// A record of the retry topic as the message it carries. One that carries none is left as it is, and no lane takes it.
RecordPtr Partition::Unwrap(RecordPtr record) {
  if (!retry) return record;
  auto message = FromRetryTopic(*record);
  if (const auto* fault = std::get_if<RetryFault>(&message)) {
    shard_.retry()->OnIgnored(id(), record->offset(), *fault);
    return record;
  }
  return std::move(std::get<RecordPtr>(message));
}

/// Reads what there is room for; returns how many messages.
std::size_t Partition::Fill(Stream& stream, Sequence slowest) {
  std::size_t grown = 0;
  while (stream.readable && stream.feed != nullptr) {
    const auto held = static_cast<std::size_t>(stream.ring.end() - slowest);
    const auto room = stream.memory->Room();
    if (held >= ring_records_ || room == 0) break;
    read_buffer_.clear();
    const auto n =
        stream.feed->Read(std::min(kReadBatch, ring_records_ - held), std::min(room, kReadBatchBytes), read_buffer_);
    if (n == 0) {
      stream.readable = false;
      break;
    }
    for (auto& record : read_buffer_) {
      record = Unwrap(std::move(record));
      record->ChargeTo(stream.memory);
      stream.next_to_read = record->offset() + 1;
      stream.ring.Push(std::move(record));
    }
    grown += n;
  }
  read_buffer_.clear();
  return grown;
}

// ---- reading apart

/// Sends away whoever keeps the first lane waiting. True when somebody went.
bool Partition::Separate(const Survey& seen, const runtime::Now& now) {
  if (seen.front < shared_.ring.end()) {
    starved_since_.reset();
    return false;  // nobody waits for anything
  }
  bool any = false;
  if (seen.front - std::min(seen.front, seen.slowest) >= ring_records_) {
    for (auto& lane : lanes) {
      if (lane.get() == seen.first || !ReadsShared(*lane) || seen.front - PositionOf(*lane) < ring_records_) continue;
      MoveApart(*lane, "too far behind the others");
      any = true;
    }
  }
  if (any || !shared_.readable || !shared_.memory->OverPart()) {
    starved_since_.reset();
    return any;
  }
  if (!starved_since_) starved_since_ = now.steady;
  if (Lane* lane = FillsMemory(*seen.first, now)) {
    MoveApart(*lane, "holds the memory of the others");
    starved_since_.reset();
    shard_.Touched(*this);  // there may be another one
    return true;
  }
  return false;
}

/// Of those beside `hungry` the one that holds the most, at once when it is full, else when that has lasted.
Lane* Partition::FillsMemory(const Lane& hungry, const runtime::Now& now) {
  const bool lasted = now.steady - *starved_since_ >= kPatience;
  Lane* heaviest = nullptr;
  std::size_t most = 0;
  for (auto& lane : lanes) {
    if (lane.get() == &hungry || !ReadsShared(*lane) || (lane->HasRoom() && !lasted)) continue;
    auto bytes = lane->held_bytes();
    for (auto at = lane->cursor(); at < shared_.ring.end(); ++at) bytes += (*shared_.ring.At(at))->memory();
    if (bytes > most) {
      most = bytes;
      heaviest = lane.get();
    }
  }
  return heaviest;
}

void Partition::MoveApart(Lane& lane, const char* why) {
  auto apart = std::make_shared<Apart>();
  apart->lane = &lane;
  auto& stream = apart->stream;
  stream.memory = std::make_shared<MemoryAccount>(shared_.memory->budget());
  stream.memory->budget()->parts.fetch_add(1, std::memory_order_relaxed);
  stream.readable = false;
  stream.next_to_read = lane.next_to_take();
  if (ReadsShared(lane)) {
    // What the ring has for it, it takes along.
    for (auto at = lane.cursor(); at < shared_.ring.end(); ++at) stream.ring.Push(*shared_.ring.At(at));
    for (auto at = stream.ring.begin(); at < stream.ring.end(); ++at) (*stream.ring.At(at))->ChargeTo(stream.memory);
    stream.next_to_read = std::max(stream.next_to_read, shared_.next_to_read);
  }
  lane.ChargeHeldTo(stream.memory);
  lane.Attach(stream.ring, stream.ring.begin(), LaneReader::kWaitsForOwn);
  apart_.push_back(std::move(apart));
  shard_.Touched(*this);
  runtime::Log(runtime::LogLevel::kInfo, "subscription reads apart from the others of its topic",
               {{"subscription", lane.subscription().shared->name},
                {"topic", id().topic},
                {"partition", id().partition},
                {"why", why},
                {"next", lane.next_to_take()},
                {"others_at", shared_.next_to_read}});
}

void Partition::EndApart(Lane& lane) {
  const auto at = std::find_if(apart_.begin(), apart_.end(), [&](const auto& apart) { return apart->lane == &lane; });
  if (at == apart_.end()) return;
  if ((*at)->stream.feed != nullptr) --readers_in_use_;
  (*at)->stream.memory->budget()->parts.fetch_sub(1, std::memory_order_relaxed);
  lane.Detach();
  apart_.erase(at);
}

/// Whoever reads apart comes back when the shared ring has what it needs next; with nobody left there, the one that is
/// furthest takes the shared feed over.
void Partition::BringBack() {
  bool anybody = false;
  for (const auto& lane : lanes) anybody = anybody || ReadsShared(*lane);
  if (!anybody) {
    Lane* furthest = nullptr;
    for (const auto& apart : apart_) {
      auto& lane = *apart->lane;
      if (!lane.closing() && lane.HasRoom() &&
          (furthest == nullptr || lane.next_to_take() > furthest->next_to_take())) {
        furthest = &lane;
      }
    }
    if (furthest != nullptr) Return(*furthest);
  }
  for (std::size_t i = apart_.size(); i-- > 0;) {
    auto& lane = *apart_[i]->lane;
    if (lane.closing() || !lane.IsHalfEmpty() || !InSharedRing(lane.next_to_take())) continue;
    // Not to be sent away again at once.
    if (shared_.ring.end() - shared_.ring.Find(lane.next_to_take()) <= ring_records_ / 2) Return(lane);
  }
}

void Partition::Return(Lane& lane) {
  EndApart(lane);
  Join(lane);
  shard_.Wake(lane);
  runtime::Log(runtime::LogLevel::kInfo, "subscription reads with the others of its topic again",
               {{"subscription", lane.subscription().shared->name},
                {"topic", id().topic},
                {"partition", id().partition},
                {"next", lane.next_to_take()}});
}

// ---- taking turns

bool Partition::IsFull(const Apart& apart, std::size_t most) {
  const auto& [feed, memory, ring, next, readable] = apart.stream;
  return ring.end() - ring.begin() >= most || memory->Room() == 0;
}

void Partition::GiveTurns(const runtime::Now& now) {
  for (;;) {
    const auto waits = std::find_if(apart_.begin(), apart_.end(), [&](const auto& apart) {
      return apart->stream.feed == nullptr && !apart->lane->closing() && !IsFull(*apart, (ring_records_ + 1) / 2);
    });
    if (waits == apart_.end()) return;
    if (readers_in_use_ < readers_->per_partition()) {
      GiveReader(*waits, now);
      continue;
    }
    const auto over = std::find_if(apart_.begin(), apart_.end(), [&](const auto& apart) {
      if (apart->stream.feed == nullptr) return false;
      return apart->lane->closing() || IsFull(*apart, ring_records_) ||
             (apart->first_read && now.steady - *apart->first_read >= kTurn) ||
             now.steady - apart->turn_began >= kLongestTurn;
    });
    if (over == apart_.end()) return;
    (*over)->stream.feed.reset();
    (*over)->stream.readable = false;
    (*over)->lane->ShowReader(LaneReader::kWaitsForOwn);
    --readers_in_use_;
    std::rotate(over, over + 1, apart_.end());
  }
}

void Partition::GiveReader(const std::shared_ptr<Apart>& apart, const runtime::Now& now) {
  auto& stream = apart->stream;
  stream.feed = readers_->Open(id(), stream.next_to_read);
  stream.readable = true;
  stream.feed->OnReadable([this, &loop = shard_.loop(), weak = std::weak_ptr<Apart>(apart)] {
    loop.Post([this, weak] {
      const auto still = weak.lock();  // while it is there, so is the partition
      if (still == nullptr) return;
      still->stream.readable = true;
      shard_.Touched(*this);
    });
  });
  apart->turn_began = now.steady;
  apart->first_read.reset();
  apart->lane->ShowReader(LaneReader::kOwn);
  ++readers_in_use_;
  shard_.Touched(*this);
}

}  // namespace posthorn::delivery
