#pragma once

#include <curl/curl.h>

#include <array>
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

/// What libcurl says of a failure in its own words: a handle's CURLOPT_ERRORBUFFER, to be emptied before each transfer.
using ErrorBuffer = std::array<char, CURL_ERROR_SIZE>;

/// Whether it was about our certificate that a server ended the connection: a text as those above, or empty. Servers
/// tell it after the handshake, so that for libcurl it is but a connection that broke.
[[nodiscard]] std::string_view AlertText(const ErrorBuffer& said);

}  // namespace posthorn::config
