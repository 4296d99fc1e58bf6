#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "config/sources/base64.h"
#include "tests/support/scripted_endpoint.h"

namespace posthorn::test {

/// As much of etcd's JSON gateway as the source asks for: all keys, one log of changes. What it answers has the form of
/// the golden files (tests/golden/etcd), which are the real server's. A watch is silent until it has an event.
///
/// Threads  All members from any.
class FakeEtcd {
 public:
  using Keys = std::map<std::string, std::string>;

  FakeEtcd() : endpoint_({{ScriptedEndpoint::Serve([this](const SeenRequest& r) { return Answered(r); })}}) {}
  ~FakeEtcd() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] std::string url() const { return endpoint_.url(""); }
  [[nodiscard]] const ScriptedEndpoint& endpoint() const { return endpoint_; }

  /// One transaction: exactly these keys from now on.
  void Commit(Keys keys) {
    const std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
    ++revision_;
    changed_.notify_all();
  }
  /// Watches of revisions before this one are refused.
  void Compact() {
    const std::lock_guard lock(mutex_);
    compacted_ = revision_;
    changed_.notify_all();
  }
  /// Another store, at revision 2; the watches on the old one end.
  void Restore(Keys keys) {
    const std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
    revision_ = 2;
    compacted_ = 0;
    ++cluster_;
    changed_.notify_all();
  }
  /// From now on every request needs a token that was given after this call, for this password.
  void Require(std::string password) {
    const std::lock_guard lock(mutex_);
    password_ = std::move(password);
    ++generation_;
    changed_.notify_all();
  }

 private:
  std::string Answered(const SeenRequest& request) {
    std::unique_lock lock(mutex_);
    if (request.line.find("/authenticate ") != std::string::npos) return LogIn(request.body);
    const std::string token = "token-" + std::to_string(generation_);
    const bool let_in = password_.empty() || request.header("authorization") == token;
    if (request.line.find("/v3/kv/range ") != std::string::npos) return let_in ? Range() : Error(401, 16, kBadToken);
    if (!let_in) {
      return Stream(Line(R"("created":true,"canceled":true,"cancel_reason":")" + kBadToken + "\""));
    }
    const std::int64_t start = StartOf(request.body);
    if (start <= compacted_) {
      return Stream(Line(R"("created":true)") +
                    Line("\"canceled\":true,\"compact_revision\":\"" + std::to_string(compacted_) + "\""));
    }
    if (start > revision_ + 1) return Stream(Line(R"("created":true)"));
    const int cluster = cluster_;
    changed_.wait(lock, [&] { return stopping_ || cluster_ != cluster || revision_ >= start; });
    if (stopping_ || cluster_ != cluster) {
      return Stream("{\"error\":{\"code\":14,\"message\":\"etcdserver: server stopped\"}}\n");
    }
    return Stream(Line(R"("created":true)") + Line(R"("events":[{"kv":{"key":"Lw=="}}])"));
  }

  std::string LogIn(const std::string& body) const {
    if (password_.empty()) return Error(400, 9, "etcdserver: authentication is not enabled");
    if (body.find("\"password\":\"" + password_ + "\"") == std::string::npos) {
      return Error(400, 3, "etcdserver: authentication failed, invalid user ID or password");
    }
    return AnswerWith(200, "{" + Header() + ",\"token\":\"token-" + std::to_string(generation_) + "\"}");
  }

  std::string Range() const {
    std::string kvs;
    for (const auto& [key, value] : keys_) {
      kvs += std::string(kvs.empty() ? "" : ",") + "{\"key\":\"" + config::EncodeBase64(key) + "\",\"value\":\"" +
             config::EncodeBase64(value) + "\"}";
    }
    return AnswerWith(200, "{" + Header() + (kvs.empty() ? "" : ",\"kvs\":[" + kvs + "]") + "}");
  }

  static std::int64_t StartOf(const std::string& body) {
    const std::string key = "\"start_revision\":\"";
    return std::stol(body.substr(body.find(key) + key.size()));
  }

  std::string Header() const {
    return "\"header\":{\"cluster_id\":\"" + std::to_string(cluster_) + "\",\"revision\":\"" +
           std::to_string(revision_) + "\"}";
  }
  std::string Line(const std::string& what) const { return "{\"result\":{" + Header() + "," + what + "}}\n"; }
  static std::string Stream(const std::string& lines) {
    return "HTTP/1.1 200 x\r\ncontent-length: " + std::to_string(lines.size()) + "\r\n\r\n" + lines;
  }
  static std::string Error(int status, int code, const std::string& message) {
    return AnswerWith(status, "{\"error\":\"" + message + "\",\"message\":\"" + message +
                                  "\",\"code\":" + std::to_string(code) + "}");
  }

  inline static const std::string kBadToken = "etcdserver: invalid auth token";

  std::mutex mutex_;
  std::condition_variable changed_;
  Keys keys_;
  std::int64_t revision_ = 1;
  std::int64_t compacted_ = 0;
  int cluster_ = 7;
  std::string password_;
  int generation_ = 0;
  bool stopping_ = false;
  ScriptedEndpoint endpoint_;  // last: its threads use the above
};

}  // namespace posthorn::test
