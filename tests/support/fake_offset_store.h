#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/delivery/offset_store.h"

namespace posthorn::test {

/// An offset store in memory that writes when it is flushed or told to. Threads: any.
class FakeOffsetStore final : public delivery::OffsetStore {
 public:
  struct Noted {
    delivery::Position position;
    bool urgent = false;
    bool changed = false;
  };

  [[nodiscard]] Fetched Fetch(const std::vector<Key>& keys, std::chrono::milliseconds) override {
    if (on_fetch) on_fetch();
    const std::lock_guard lock(mutex_);
    ++fetches_;
    if (fetch_failures_ > 0) {
      --fetch_failures_;
      return std::nullopt;
    }
    std::vector<std::optional<delivery::Position>> found;
    for (const auto& key : keys) {
      const auto it = stored_.find(key);
      found.push_back(it == stored_.end() ? std::nullopt : std::optional(it->second));
    }
    return found;
  }
  [[nodiscard]] std::optional<std::pair<delivery::Offset, delivery::Offset>> Bounds(
      const delivery::TopicPartition& partition, std::chrono::milliseconds) override {
    const std::lock_guard lock(mutex_);
    if (bounds_failures_ > 0) {
      --bounds_failures_;
      return std::nullopt;
    }
    return bounds_(partition);
  }
  void Update(const Key& key, delivery::Position position, bool urgent, bool changed) override {
    const std::lock_guard lock(mutex_);
    noted_[key] = {position, urgent, changed};
    ++updates_;
    if (on_update) on_update(key, position);
  }
  void Flush(const std::vector<Key>& keys, std::function<void(bool)> done) override {
    bool ok = true;
    {
      const std::lock_guard lock(mutex_);
      ok = !flush_fails_;
      if (ok) {
        for (const auto& key : keys) WriteNoted(key);
      }
    }
    done(ok);
  }
  void Drop(const std::vector<Key>& keys) override {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& key : keys) {
        noted_.erase(key);
        ++drops_[key];
      }
    }
    if (on_drop) on_drop();
  }

  void WriteAgain() override { again_.fetch_add(1); }
  [[nodiscard]] int write_agains() const { return again_.load(); }

  /// The write-behind: everything noted is stored.
  void WriteAll() {
    const std::lock_guard lock(mutex_);
    std::vector<Key> keys;
    for (const auto& [key, noted] : noted_) keys.push_back(key);
    for (const auto& key : keys) WriteNoted(key);
  }
  void Store(const Key& key, delivery::Offset next, std::string metadata = {}) {
    const std::lock_guard lock(mutex_);
    stored_[key] = {next, std::move(metadata)};
  }
  [[nodiscard]] std::optional<delivery::Position> stored_position(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = stored_.find(key);
    return it == stored_.end() ? std::nullopt : std::optional(it->second);
  }
  [[nodiscard]] std::optional<delivery::Offset> stored(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = stored_.find(key);
    return it == stored_.end() ? std::nullopt : std::optional(it->second.next);
  }
  [[nodiscard]] std::optional<Noted> noted(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = noted_.find(key);
    return it == noted_.end() ? std::nullopt : std::optional(it->second);
  }
  void SetBounds(std::function<std::pair<delivery::Offset, delivery::Offset>(const delivery::TopicPartition&)> bounds) {
    const std::lock_guard lock(mutex_);
    bounds_ = std::move(bounds);
  }
  void FailFetches(int n) {
    const std::lock_guard lock(mutex_);
    fetch_failures_ = n;
  }
  void FailBounds(int n) {
    const std::lock_guard lock(mutex_);
    bounds_failures_ = n;
  }
  void FailFlushes(bool fails) {
    const std::lock_guard lock(mutex_);
    flush_fails_ = fails;
  }
  [[nodiscard]] int fetches() const {
    const std::lock_guard lock(mutex_);
    return fetches_;
  }
  [[nodiscard]] int updates() const {
    const std::lock_guard lock(mutex_);
    return updates_;
  }
  [[nodiscard]] int drops(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = drops_.find(key);
    return it == drops_.end() ? 0 : it->second;
  }

  // Set before threads start.
  std::function<void()> on_fetch;
  std::function<void()> on_drop;
  std::function<void(const Key&, const delivery::Position&)> on_update;

 private:
  void WriteNoted(const Key& key) {
    const auto it = noted_.find(key);
    if (it == noted_.end()) return;
    stored_[key] = it->second.position;
    noted_.erase(it);
  }

  mutable std::mutex mutex_;
  std::map<Key, delivery::Position> stored_;
  std::map<Key, Noted> noted_;
  std::map<Key, int> drops_;
  std::function<std::pair<delivery::Offset, delivery::Offset>(const delivery::TopicPartition&)> bounds_ =
      [](const delivery::TopicPartition&) { return std::pair<delivery::Offset, delivery::Offset>(0, 1'000'000); };
  int fetch_failures_ = 0;
  int bounds_failures_ = 0;
  bool flush_fails_ = false;
  int fetches_ = 0;
  int updates_ = 0;
  std::atomic<int> again_{0};
};

}  // namespace posthorn::test
