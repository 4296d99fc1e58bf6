#pragma once

#include <string>

namespace posthorn::http {

/// Whether the libcurl at run time can be trusted with `http: 2`: built with HTTP/2 and at least 8.1 (older ones fail
/// every request that reuses a connection). `why` may be null; it gets one line when the answer is no.
/// Threads  Any.
[[nodiscard]] bool Http2Available(std::string* why);

}  // namespace posthorn::http
