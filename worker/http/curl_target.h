#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "worker/delivery/sender.h"
#include "worker/http/request_headers.h"
#include "worker/http/transfer.h"

namespace posthorn::http {

class MultiHandle;

/// A subscription's requests as libcurl needs them: parsed URL, options, the fixed header lines, a pool of transfers.
///
/// TLS name  libcurl verifies, and asks by SNI for, the host of the URL. With a `server_name` the URL is written with
///           that name, the connection is led to the endpoint's host (CURLOPT_CONNECT_TO), and the Host header names
///           the endpoint's host as if nothing had happened.
class CurlTarget final : public delivery::Target {
 public:
  /// Told when the target goes, while the sender still lives.
  class Registry {
   public:
    virtual ~Registry() = default;
    virtual void Gone(CurlTarget& target) = 0;
  };

  CurlTarget(const config::Subscription& subscription, std::string_view user_agent, AnswerLimits limits,
             long max_idle_seconds, CURLSH* share, Registry& registry);
  ~CurlTarget() override;

  /// Why no request can be made at all; empty: they can.
  [[nodiscard]] std::string_view fault() const { return fault_; }
  [[nodiscard]] const RequestHeaders& headers() const { return headers_; }
  [[nodiscard]] curl_slist* fixed_lines() { return fixed_nodes_.data(); }
  [[nodiscard]] bool retry_client_errors() const { return retry_client_errors_; }
  [[nodiscard]] std::string_view timeout_text() const { return timeout_text_; }

  [[nodiscard]] Transfer& Take();
  void GiveBack(Transfer& transfer);
  [[nodiscard]] std::size_t in_use() const { return all_.size() - free_.size(); }
  [[nodiscard]] bool holds_transfers() const { return !all_.empty(); }
  /// Frees the transfers that are not in use, and with them their buffers.
  void FreeUnused();
  /// The sender is going: nothing of libcurl stays, and the registry is not told any more.
  void Detach();

  // The engine's notes: where this target's requests go.
  std::vector<MultiHandle*> own;
  MultiHandle* shared = nullptr;
  runtime::SteadyTime last_used{};
  std::size_t registry_index = 0;

 private:
  void ParseEndpoint(const config::Subscription& subscription);
  [[nodiscard]] CURL* MakeEasy() const;
  void SetTls(CURL* easy) const;

  RequestHeaders headers_;
  std::string host_line_;
  std::vector<curl_slist> fixed_nodes_;
  bool retry_client_errors_;
  bool https_ = false;
  long timeout_ms_;
  long max_idle_seconds_;
  std::string timeout_text_;
  std::string fault_;
  config::HttpVersion http_;
  config::Tls tls_;
  AnswerLimits limits_;
  CURLU* url_ = nullptr;
  std::string connect_to_;
  curl_slist connect_to_node_{};
  CURLSH* share_;
  Registry* registry_;
  std::vector<std::unique_ptr<Transfer>> all_;
  std::vector<Transfer*> free_;
};

}  // namespace posthorn::http
