#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/scripted_endpoint.h"

namespace posthorn::test {

/// As much of Central Dogma's REST API as the source asks for: one repository, entries in revisions, watches by `/**`.
/// What it answers has the form of the golden files (tests/golden/central_dogma), which are the real server's.
///
/// Threads  All members from any.
class FakeCentralDogma {
 public:
  using Files = std::map<std::string, std::string>;  // path -> text; all of type TEXT

  FakeCentralDogma() : endpoint_({{ScriptedEndpoint::Serve([this](const SeenRequest& r) { return Answered(r); })}}) {}
  ~FakeCentralDogma() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] std::string url() const { return endpoint_.url(""); }
  [[nodiscard]] const ScriptedEndpoint& endpoint() const { return endpoint_; }

  /// The next revision holds exactly these.
  void Commit(Files files) {
    const std::lock_guard lock(mutex_);
    revisions_.push_back(std::move(files));
    changed_.notify_all();
  }
  /// A restart with another store, which has these at its revision 2: connections of before are of no use.
  void Reset(Files files) {
    const std::lock_guard lock(mutex_);
    ++store_;
    revisions_ = {{}, std::move(files)};
    changed_.notify_all();
  }
  /// Only this token is let in.
  void Require(std::string token) {
    const std::lock_guard lock(mutex_);
    token_ = std::move(token);
  }
  /// Every request is answered so, also those that are waiting; empty: as usual again.
  void AnswerAll(std::string bytes) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(bytes);
    changed_.notify_all();
  }

 private:
  std::string Answered(const SeenRequest& request) {
    std::unique_lock lock(mutex_);
    const int store = stores_.emplace(request.connection, store_).first->second;
    if (store != store_) return kShuttingDown;
    if (!fault_.empty()) return fault_;
    if (request.header("authorization") != "Bearer " + token_) return AnswerWith(401, "Unauthorized");
    const std::string path = request.line.substr(4, request.line.rfind(' ') - 4);
    if (path.ends_with("/revision/-1")) return Json(200, "{\"revision\":" + std::to_string(revisions_.size()) + "}");
    if (const std::size_t at = path.find("?revision="); at != std::string::npos) {
      return Entries(std::stoul(path.substr(at + 10)));
    }
    const std::size_t have = std::stoul(request.header("if-none-match"));
    if (have > revisions_.size()) return NoSuchRevision(have);
    const Files before = revisions_[have - 1];
    const auto news = [&] { return stopping_ || store != store_ || !fault_.empty() || revisions_.back() != before; };
    if (!changed_.wait_for(lock, kPoll, news)) return Answer(304);
    if (stopping_ || store != store_) return kShuttingDown;
    if (!fault_.empty()) return fault_;
    return Json(200, "{\"revision\":" + std::to_string(revisions_.size()) + "}");
  }

  std::string Entries(std::size_t revision) const {
    if (revision > revisions_.size()) return NoSuchRevision(revision);
    const Files& files = revisions_[revision - 1];
    if (files.empty()) return Answer(204);
    std::string entries;
    for (const auto& [name, text] : files) {
      entries += entries.empty() ? "[" : ",";
      entries += "{\"revision\":" + std::to_string(revision) + ",\"path\":\"" + name +
                 "\",\"type\":\"TEXT\",\"content\":\"" + text + "\",\"url\":\"/api/v1" + name + "\"}";
    }
    return Json(200, entries + "]");
  }

  static std::string NoSuchRevision(std::size_t revision) {
    return Json(404,
                "{\"exception\":\"com.linecorp.centraldogma.common.RevisionNotFoundException\",\"message\":\"Revision "
                "delivery/cfg/" +
                    std::to_string(revision) + " does not exist.\"}");
  }

  static std::string Json(int status, const std::string& body) {
    return AnswerWith(status, body, "content-type: application/json\r\n");
  }

  static constexpr std::chrono::milliseconds kPoll{50};
  inline static const std::string kShuttingDown = AnswerWith(
      500, R"({"exception":"com.linecorp.centraldogma.common.ShuttingDownException"})", "connection: close\r\n");

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Files> revisions_{{}};  // revision 1 is the first of them
  std::string token_ = "anonymous";
  std::string fault_;
  int store_ = 0;
  std::map<int, int> stores_;  // by connection: the store it was made to
  bool stopping_ = false;
  ScriptedEndpoint endpoint_;  // last: its threads use the above
};

}  // namespace posthorn::test
