#include "config/sources/libcurl_basics.h"

#include <openssl/x509_vfy.h>

#include <cerrno>
#include <csignal>
#include <mutex>

namespace posthorn::config {

void StartLibcurl() {
  static std::once_flag once;
  std::call_once(once, [] {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct sigaction current {};
    if (sigaction(SIGPIPE, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
        current.sa_handler == SIG_DFL) {
      std::signal(SIGPIPE, SIG_IGN);
    }
  });
}

std::string_view ConnectText(CURL* easy) {
  long os_error = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
  switch (os_error) {
    case ECONNREFUSED:
      return "connect refused";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "connect: no route";
    case ETIMEDOUT:
      return "connect timed out";
    case EMFILE:
    case ENFILE:
      return "connect: out of file descriptors";
    case EADDRNOTAVAIL:
      return "connect: out of local ports";
    default:
      return "connect failed";
  }
}

std::string_view CertificateText(CURL* easy) {
  long verify = 0;
  curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verify);
  switch (verify) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED:  // where libcurl leaves it when its own check of the name fails
      return "TLS: certificate is for another name";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "TLS: certificate expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "TLS: certificate not yet valid";
    case X509_V_ERR_CERT_REVOKED:
      return "TLS: certificate revoked";
    default:
      return "TLS: certificate not trusted";
  }
}

std::string_view AlertText(const ErrorBuffer& said) {
  // OpenSSL's names of the alerts, whose beginnings differ from version to version. Which of them a server chooses
  // tells nothing: many say "bad certificate" where they got none.
  const std::string_view text(said.data());
  const auto alert = text.find(" alert ");
  if (alert == std::string_view::npos) return {};
  const auto has = [&](std::string_view what) { return text.find(what, alert) != std::string_view::npos; };
  return has("certificate") || has("unknown ca") ? "TLS: client certificate missing or refused by the server" : "";
}

}  // namespace posthorn::config
