#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "config/sources/source.h"

namespace posthorn::config {

/// Asks a source as the watch does, and keeps what was last read: after a failure everything is asked for anew.
class SourceFollower {
 public:
  using Files = std::map<std::string, std::string>;

  explicit SourceFollower(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  Outcome Next(std::chrono::milliseconds wait = std::chrono::hours(1), std::stop_token stop = {}) {
    Outcome outcome = source_->Next(have_, wait, std::move(stop));
    if (const Changed* changed = std::get_if<Changed>(&outcome)) {
      EXPECT_FALSE(changed->snapshot.revision.empty());
      have_ = changed->snapshot.revision;
      number_ = changed->snapshot.number;
      files_ = changed->snapshot.files;
    }
    if (std::holds_alternative<Failed>(outcome)) have_.clear();
    return outcome;
  }

  /// The documents of the next revision, whatever fails before it is there.
  const Files& NextFiles() {
    while (!std::holds_alternative<Changed>(Next())) {
    }
    return files_;
  }

  /// Until it holds these.
  void Await(const Files& files) {
    while (files_ != files) Next();
  }

  Failed NextFailure() {
    for (;;) {
      Outcome outcome = Next();
      if (Failed* failed = std::get_if<Failed>(&outcome)) return std::move(*failed);
    }
  }

  [[nodiscard]] const Files& files() const { return files_; }
  [[nodiscard]] const std::string& number() const { return number_; }

 private:
  std::unique_ptr<Source> source_;
  std::string have_;
  std::string number_;
  Files files_;
};

}  // namespace posthorn::config
