#include "worker/http/error_text.h"

namespace posthorn::http {

namespace {

constexpr auto kTooLarge = static_cast<CURLcode>(100);  // CURLE_TOO_LARGE of libcurl 8.6 and newer

}  // namespace

std::string_view ErrorText(CURL* easy, CURLcode code, const config::ErrorBuffer& said) {
  switch (code) {
    case CURLE_OK:  // ended in order as far as libcurl is concerned, but no complete answer came
      return "answer cut off in its headers";
    case CURLE_COULDNT_RESOLVE_HOST:
      return "dns: not found";
    case CURLE_COULDNT_CONNECT:
      return config::ConnectText(easy);
    case CURLE_GOT_NOTHING:
      return "connection closed before an answer";
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      if (const auto refusal = config::AlertText(said); !refusal.empty()) return refusal;
      return "connection reset before an answer";
    case CURLE_PEER_FAILED_VERIFICATION:
      return config::CertificateText(easy);
    case CURLE_SSL_CACERT_BADFILE:
      return "TLS: ca file cannot be used";
    case CURLE_SSL_CERTPROBLEM:
      return "TLS: client certificate or key cannot be used";
    case CURLE_SSL_CONNECT_ERROR:
      if (const auto refusal = config::AlertText(said); !refusal.empty()) return refusal;
      return "TLS: handshake failed";
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // "HTTP/0.9", that is: no status line
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_BAD_CONTENT_ENCODING:
      return "not an HTTP answer";
    case CURLE_WRITE_ERROR:
    case kTooLarge:
      return "answer headers too large";
    case CURLE_OUT_OF_MEMORY:
      return "out of memory, or an answer header too large";
    case CURLE_URL_MALFORMAT:
      return "endpoint cannot be used";
    default:
      return "transfer failed";
  }
}

}  // namespace posthorn::http
