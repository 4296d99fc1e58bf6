#include "worker/http/libcurl_support.h"

#include <curl/curl.h>

namespace posthorn::http {

bool Http2Available(std::string* why) {
  constexpr unsigned kOldest = 0x080100;  // 8.1.0
  const curl_version_info_data* info = curl_version_info(CURLVERSION_NOW);
  const bool built_in = (info->features & CURL_VERSION_HTTP2) != 0;
  if (built_in && info->version_num >= kOldest) return true;
  if (why != nullptr) {
    const std::string version = info->version;
    *why = built_in ? "http: 2 needs libcurl 8.1 or newer, this is " + version
                    : "http: 2 needs a libcurl built with HTTP/2, this one (" + version + ") is not";
  }
  return false;
}

}  // namespace posthorn::http
