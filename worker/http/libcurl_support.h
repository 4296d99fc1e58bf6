#pragma once

#include <string>

namespace posthorn::http {

/// Whether the libcurl at run time can be trusted with `http: 2`: built with HTTP/2 and at least 8.1 (older ones fail
/// every request that reuses a connection). `why` may be null; it gets one line when the answer is no.
/// Threads  Any.
[[nodiscard]] bool Http2Available(std::string* why);

/// Starts libcurl once per process. Ignores SIGPIPE when it still has its default action: TLS writes to a closed
/// connection would end the process otherwise.
/// Threads  Any; later calls return at once.
void StartLibcurl();

}  // namespace posthorn::http
