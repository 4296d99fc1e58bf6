#pragma once

#include <curl/curl.h>

#include <string_view>

#include "config/sources/libcurl_basics.h"

namespace posthorn::http {

/// Why a transfer ended without an answer, from a closed set of short texts: what an operator can act on, no address.
/// Not for CURLE_OPERATION_TIMEDOUT, whose text names the target's timeout. `said`: the handle's.
[[nodiscard]] std::string_view ErrorText(CURL* easy, CURLcode code, const config::ErrorBuffer& said);

}  // namespace posthorn::http
