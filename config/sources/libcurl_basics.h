#pragma once

#include <curl/curl.h>

#include <string_view>

namespace posthorn::config {

/// What all uses of libcurl in the process share: the configuration sources' and the deliveries'.

/// Starts libcurl once per process. Ignores SIGPIPE when it still has its default action: TLS writes to a closed
/// connection would end the process otherwise.
/// Threads  Any; later calls return at once.
void StartLibcurl();

/// Why a connection could not be made, and why a server's certificate was not accepted: short texts of a closed set,
/// what an operator can act on, no address. For a transfer that has ended so; threads as the handle's.
[[nodiscard]] std::string_view ConnectText(CURL* easy);
[[nodiscard]] std::string_view CertificateText(CURL* easy);

}  // namespace posthorn::config
