#include "worker/fleet/control_node.h"

#include <algorithm>
#include <utility>

#include "worker/delivery/stable_hash.h"
#include "worker/runtime/log.h"

namespace posthorn::fleet {
namespace {

using ratelimit::ControlRecord;
using ratelimit::Epoch;
using ratelimit::Grant;
using ratelimit::Label;
using runtime::Log;
using runtime::LogLevel;
using runtime::WallTime;
using std::chrono::milliseconds;

constexpr auto kLook = milliseconds(50);             // between two looks at limits and demand
constexpr auto kBetweenReports = milliseconds(100);  // of one partition
constexpr auto kRegular = milliseconds(600);         // into the window: the regular report
constexpr std::size_t kRecordsAtOnce = 4'000;        // in one message of the log: about 200 kB
/// A worker that has just started waits for its first lease, which is nothing to tell anybody about.
constexpr auto kPatience = std::chrono::seconds(15);

std::int64_t Milliseconds(runtime::Nanoseconds time) { return std::chrono::duration_cast<milliseconds>(time).count(); }

}  // namespace

std::int32_t PartitionOf(std::string_view limit, std::int32_t partitions) {
  return static_cast<std::int32_t>(delivery::StableHash(limit) % static_cast<std::uint64_t>(partitions));
}

ControlNode::ControlNode(Parts parts) : parts_(std::move(parts)) {}

// ---- what comes

void ControlNode::OnReady(std::int32_t partitions) {
  if (!partitions_.empty()) return;
  for (std::int32_t i = 0; i < partitions; ++i) {
    CoordinatorSeat::Parts seat;
    seat.length = parts_.length;
    seat.seed = parts_.self + static_cast<std::uint64_t>(i);
    seat.append = [this, i](std::vector<ControlRecord> records) { Append(i, std::move(records)); };
    partitions_.emplace_back(std::move(seat));
  }
  taken_.reset();
  look_at_ = {};
}

void ControlNode::OnOwned(std::int32_t partition, bool owned, const runtime::Now& now) {
  const auto index = static_cast<std::size_t>(partition);
  if (index < partitions_.size() && !left_) partitions_[index].seat.SetOwned(owned, now.wall);
}

void ControlNode::OnLogEnd(std::int32_t partition) {
  const auto index = static_cast<std::size_t>(partition);
  if (index < partitions_.size()) partitions_[index].seat.OnLogEnd();
}

void ControlNode::OnReport(std::int32_t partition, std::string_view bytes, const runtime::Now& now) {
  const auto index = static_cast<std::size_t>(partition);
  if (index >= partitions_.size()) return;
  const auto decoded = DecodeReport(bytes);
  if (const auto* fault = std::get_if<WireFault>(&decoded)) {
    ++ignored_[static_cast<std::size_t>(*fault)];
    return;
  }
  partitions_[index].seat.OnReport(std::get<ReportMessage>(decoded), now.wall);
}

void ControlNode::OnLog(std::int32_t number, std::string_view bytes, const runtime::Now& now) {
  const auto index = static_cast<std::size_t>(number);
  if (index >= partitions_.size()) return;
  auto& partition = partitions_[index];
  const auto decoded = DecodeLog(bytes);
  if (const auto* fault = std::get_if<WireFault>(&decoded)) {
    ++ignored_[static_cast<std::size_t>(*fault)];
    return;
  }
  const auto& message = std::get<LogMessage>(decoded);
  partition.seat.OnLog(bytes, message, now.wall);
  bool sooner = false;
  for (const auto& record : message.records) {
    if (const auto* epoch = std::get_if<Epoch>(&record)) {
      if (!partition.fence.Accept(*epoch)) continue;
      partition.coordinator = message.sender;
      partition.report_now = true;  // it waits for everybody's word
    } else if (const auto& grant = std::get<Grant>(record); partition.fence.Accept(grant)) {
      TakeGrant(number, grant, now, sooner);
    }
  }
  if (sooner) parts_.wake();
}

void ControlNode::TakeGrant(std::int32_t partition, const Grant& grant, const runtime::Now& now, bool& sooner) {
  if (grant.to != parts_.self) return;
  const auto found = limits_.find(grant.limit);
  if (found == limits_.end() || found->second.partition != partition) return;
  auto& limit = found->second;
  const auto taken = limit.book.limiter->Accept(grant, now.wall);
  if (!taken.held) return;
  ++grants_;
  limit.granted_at = now.wall;
  sooner = sooner || taken.sooner;
  if (taken.less) PartitionWith(limit).report_now = true;
}

void ControlNode::OnStored(std::int32_t partition, WallTime sent, WallTime stored, WallTime known) {
  clock_.Add(partition, sent, stored, known);
}

// ---- what goes

void ControlNode::TakeLimits(const runtime::Now& now) {
  const auto changes = parts_.limits->changes();
  if (taken_ == std::pair(changes, fenced_)) return;
  taken_ = {changes, fenced_};
  claim_ = parts_.limits->Claim();
  std::map<std::string, Limit> limits;
  for (auto& view : parts_.limits->Views()) {
    auto known = limits_.extract(view.name);
    auto& limit = limits[view.name];
    if (known) limit = std::move(known.mapped());
    limit.book = std::move(view);
  }
  // Those that are left are not in the configuration any more.
  for (const auto& [name, limit] : limits_) {
    if (limit.partition >= 0) PartitionWith(limit).seat.Forget(name, now.wall);
  }
  limits_ = std::move(limits);
  if (partitions_.empty()) return;
  for (auto& [name, limit] : limits_) {
    limit.partition = PartitionOf(name, static_cast<std::int32_t>(partitions_.size()));
    PartitionWith(limit).seat.SetTerms(name, limit.book.terms, now.wall);
    // Also one that is new here, or was removed meanwhile and has come back.
    const auto state = limit.book.limiter->StateOfLease(now.wall);
    if (state && state->fenced != fenced_) limit.book.limiter->Fence(fenced_, now.wall);
  }
}

void ControlNode::TakeDemand(const runtime::Now& now) {
  if (limits_.empty()) return;
  const auto demand = parts_.demand(now);
  const Label label = ratelimit::LabelAt(now.wall);
  for (auto& [name, limit] : limits_) {
    const auto found = demand.find(name);
    limit.demand = found == demand.end() || fenced_ ? Demand{} : found->second;
    // More waits than this window still has here.
    const auto state = limit.book.limiter->StateOfLease(now.wall);
    const std::int64_t left = state ? state->cap.permits - limit.book.limiter->UsedIn(label) : 0;
    limit.starved = limit.demand.now > std::max<std::int64_t>(left, 0);
    if (state) NoteWaiting(limit, *state, now);
    if (!limit.starved || limit.partition < 0) continue;
    // What the coordinator knows already needs no haste.
    const std::int64_t total = limit.book.terms.Total(label);
    const bool more = std::min(limit.demand.next_window, total) > std::min(limit.told_demand, total);
    if (!limit.told_starved || more) PartitionWith(limit).report_now = true;
  }
}

/// A worker whose lease has run out says so, once.
void ControlNode::NoteWaiting(Limit& limit, const ratelimit::Limiter::LeaseState& state, const runtime::Now& now) {
  if (limit.book.limit.max_rate.IsZero()) return;
  const bool none = state.cap.source == ratelimit::Lease::Source::kNothing;
  if (none == limit.waits || (none && !state.covered_until && now.wall < *started_ + kPatience)) return;
  limit.waits = none;
  if (none) {
    Log(LogLevel::kWarning, "no lease of the limit: nothing is delivered under it until a coordinator grants one",
        {{"limit", limit.book.name}, {"coordinated", !partitions_.empty()}});
  } else {
    Log(LogLevel::kInfo, "the limit has a share here again", {{"limit", limit.book.name}});
  }
}

void ControlNode::SetFenced(bool fenced) {
  if (fenced == fenced_) return;
  fenced_ = fenced;
  const auto estimate = clock_.Estimate();
  const auto offset = estimate ? Milliseconds(estimate->middle()) : 0;
  if (fenced) {
    Log(LogLevel::kError,
        "this worker's clock is further off than `max_clock_offset`: nothing is delivered here under limits",
        {{"offset_ms", offset}, {"max_ms", Milliseconds(parts_.max_clock_offset)}});
  } else {
    Log(LogLevel::kInfo, "this worker's clock is right again", {{"offset_ms", offset}});
  }
  for (auto& partition : partitions_) partition.report_now = true;
  // Its labels would be others': somebody else shall coordinate.
  parts_.link->SetCandidate(!fenced);
}

ReportMessage ControlNode::MakeReport(std::int32_t number, const runtime::Now& now) {
  ReportMessage message{parts_.instance, {parts_.self, claim_, {}}};
  for (auto& [name, limit] : limits_) {
    if (limit.partition != number) continue;
    message.report.limits.push_back(limit.book.limiter->Report(limit.demand.next_window, limit.starved, now.wall));
    limit.told_demand = limit.demand.next_window;
    limit.told_starved = limit.starved;
  }
  return message;
}

void ControlNode::SendReport(std::int32_t number, Partition& partition, const runtime::Now& now) {
  partition.report_now = false;
  partition.reported_at = now.wall;
  const auto message = MakeReport(number, now);
  if (message.report.limits.empty()) return;
  ++reports_;
  parts_.link->Report(number, Encode(message));
}

WallTime ControlNode::ReportIfDue(std::int32_t number, Partition& partition, const runtime::Now& now) {
  const Label label = ratelimit::LabelAt(now.wall);
  const WallTime regular = ratelimit::StartOf(label) + kRegular;
  if (partition.reported_in < label && now.wall >= regular) {
    partition.reported_in = label;
    SendReport(number, partition, now);
  } else if (partition.report_now && now.wall >= partition.reported_at + kBetweenReports) {
    SendReport(number, partition, now);
  }
  const WallTime next = partition.reported_in < label ? regular : ratelimit::StartOf(label + 1) + kRegular;
  return partition.report_now ? std::min(next, partition.reported_at + kBetweenReports) : next;
}

WallTime ControlNode::Tick(const runtime::Now& now) {
  if (!started_) started_ = now.wall;
  if (left_) return WallTime::max();
  if (now.wall >= look_at_) {
    const bool was_fenced = fenced_;
    SetFenced(clock_.Beyond(parts_.max_clock_offset));
    TakeLimits(now);
    if (was_fenced && !fenced_) parts_.wake();
    TakeDemand(now);
    look_at_ = now.wall + kLook;
  }
  WallTime next = look_at_;
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    next = std::min(next, ReportIfDue(static_cast<std::int32_t>(i), partitions_[i], now));
    next = std::min(next, partitions_[i].seat.Tick(now.wall));
  }
  return next;
}

void ControlNode::Leave(const runtime::Now& now) {
  if (left_) return;
  for (const auto& [name, limit] : limits_) limit.book.limiter->Leave(now.wall);
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    auto& seat = partitions_[i].seat;
    const auto message = MakeReport(number, now);
    if (!message.report.limits.empty()) parts_.link->Report(number, Encode(message));
    // Its own word comes too late for whoever is next.
    seat.OnReport(message, now.wall);
    if (seat.coordinator() != nullptr) (void)seat.Tick(now.wall + kBetweenReports);
    seat.SetOwned(false, now.wall);
  }
  left_ = true;
}

void ControlNode::Append(std::int32_t number, std::vector<ControlRecord> records) {
  for (std::size_t at = 0; at < records.size(); at += kRecordsAtOnce) {
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(std::min(records.size(), at + kRecordsAtOnce));
    parts_.link->Append(number,
                        Encode(LogMessage{parts_.instance, {records.begin() + static_cast<std::ptrdiff_t>(at), end}}));
  }
}

// ---- what there is to see

ControlView ControlNode::View(const runtime::Now& now) const {
  ControlView view;
  view.partitions = static_cast<std::int32_t>(partitions_.size());
  view.clock_offset = clock_.Estimate();
  view.clock_fenced = fenced_;
  view.ignored = ignored_;
  view.reports = reports_;
  view.grants = grants_;
  for (const auto& [name, limit] : limits_) {
    LeaseView shown;
    shown.limit = name;
    shown.partition = limit.partition;
    if (const auto state = limit.book.limiter->StateOfLease(now.wall)) shown.lease = *state;
    if (limit.partition >= 0) {
      const auto& partition = partitions_[static_cast<std::size_t>(limit.partition)];
      shown.coordinator = partition.coordinator;
      shown.epoch = partition.fence.in_force().value_or(0);
    }
    shown.demand = limit.demand;
    shown.starved = limit.starved;
    shown.waits = limit.waits;
    if (limit.granted_at) shown.lease_age = now.wall - *limit.granted_at;
    view.limits.push_back(std::move(shown));
  }
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    const auto& seat = partitions_[i].seat;
    view.above_total += seat.above_total();
    const auto* coordinator = seat.coordinator();
    if (coordinator == nullptr) continue;
    CoordinatedView shown{static_cast<std::int32_t>(i), coordinator->phase(), coordinator->epoch(), {}};
    for (const auto& [name, limit] : limits_) {
      if (limit.partition != shown.partition) continue;
      auto found = coordinator->View(name);
      if (!found) continue;
      std::vector<std::string> instances;
      for (const auto& member : found->members) instances.push_back(seat.NameOf(member.who));
      shown.limits.push_back({name, std::move(*found), std::move(instances)});
    }
    view.coordinated.push_back(std::move(shown));
  }
  return view;
}

}  // namespace posthorn::fleet
