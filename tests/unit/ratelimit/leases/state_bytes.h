#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "ratelimit/leases/coordinator.h"
#include "ratelimit/leases/lease.h"

namespace posthorn::ratelimit {

/// Everything of a state machine that its behaviour depends on, in 128 bits: equal states have equal fingerprints, and
/// two of ten million different ones have the same with a probability of 1e-24.
struct StateBytes {
  std::uint64_t low = 0x9E3779B97F4A7C15;
  std::uint64_t high = 0xC2B2AE3D27D4EB4F;

  bool operator==(const StateBytes&) const = default;

  template <typename Number>
  void Add(Number number) {
    const auto bits = static_cast<std::uint64_t>(number);
    low = Mixed(low ^ bits) + 0xD1B54A32D192ED03;
    high = Mixed(high + bits * 0x9FB21C651E98DF25) ^ std::rotl(low, 29);
  }
  void Add(const StateBytes& part) {
    Add(part.low);
    Add(part.high);
  }
  void Add(const GrantId& id) {
    Add(id.epoch);
    Add(id.sequence);
  }
  void Add(const SlotShares& slots) {
    Add(slots.terms_.revision);
    Add(slots.settled_from_);
    Add(slots.earlier_.size());
  }
  void Add(const Grant& grant) {
    Add(grant.to);
    Add(grant.id);
    Add(grant.first);
    for (const auto share : grant.shares) Add(share);
    Add(grant.terms.revision);
  }
  void Add(const Epoch& epoch) {
    Add(epoch.number);
    Add(epoch.owner);
    Add(epoch.renewal);
  }
  void Add(const ControlRecord& record) {
    Add(record.index());
    std::visit([this](const auto& content) { Add(content); }, record);
  }
  void Add(const Report& report) {
    Add(report.from);
    for (const auto& limit : report.limits) {
      Add(limit.held);
      Add(limit.label);
      Add(limit.committed);
      Add(limit.demand);
    }
  }
  void Add(const LogFence& fence) { Add(fence.in_force_.value_or(0)); }
  void Add(const Lease& lease) {
    Add(lease.process_.self);
    Add(lease.slots_);
    Add(lease.label_);
    Add(lease.held_.has_value());
    if (lease.held_) Add(*lease.held_);
  }
  void Add(const LeaseLedger& ledger) {
    Add(ledger.slots_);
    Add(ledger.floor_);
    for (const auto& [who, holder] : ledger.holders_) {
      Add(who);
      for (const auto& out : holder.out_) {
        Add(out.id);
        Add(out.first);
        Add(out.terms.revision);
        Add(out.certain);
        for (const auto share : out.shares) Add(share);
      }
      Add(holder.past_.size());
      for (const auto& [label, permits] : holder.past_) {
        Add(label);
        Add(permits);
      }
      Add(holder.newest_);
      Add(holder.acked_);
      // The rest says when a slot's share counts.
      Add(holder.claim_.has_value());
      if (ledger.slots_.slots() > 0) {
        Add(holder.expired_newest_);
        Add(holder.expired_end_);
        Add(holder.covered_from_);
      }
      Add(holder.until_);
      Add(holder.left_.value_or(-1));
    }
    for (const auto& [slot, occupancy] : ledger.occupied_) {
      Add(slot);
      Add(occupancy.occupant);
      Add(occupancy.known_from);
    }
  }
  void Add(const Coordinator& coordinator) {
    Add(coordinator.options_.self);
    Add(static_cast<int>(coordinator.phase_));
    Add(coordinator.fence_);
    Add(coordinator.claimed_);
    Add(coordinator.sequence_);
    Add(coordinator.label_);
    Add(coordinator.leading_from_);
    Add(coordinator.planned_);
    for (const auto& [name, limit] : coordinator.limits_) {
      Add(limit.ledger);
      Add(limit.changed);
      Add(limit.settled);
      for (const auto& [who, member] : limit.members) {
        Add(who);
        Add(member.demand);
        Add(member.demand_before);
        Add(member.label);
        Add(member.heard);
        Add(member.starved);
        Add(member.leaving);
      }
    }
  }

  static const Lease::Process& ProcessOf(const Lease& lease) { return lease.process_; }

 private:
  static std::uint64_t Mixed(std::uint64_t x) {
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D;
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D;
    return x ^ (x >> 28);
  }
};

}  // namespace posthorn::ratelimit
