#pragma once

#include <string>
#include <string_view>

namespace posthorn::config {

/// What single values must look like beyond their type. Each returns the rule that is broken, or nothing.

std::string CheckName(std::string_view name);
std::string CheckTopic(std::string_view topic);
std::string CheckFleet(std::string_view fleet);
std::string CheckInstance(std::string_view instance);
std::string CheckAddress(std::string_view address);  // host:port, [ipv6]:port
std::string CheckHost(std::string_view host);
std::string CheckEndpoint(std::string_view url);
std::string CheckServer(std::string_view url);  // an http(s) URL that ends with its host and port
std::string CheckPathSegment(std::string_view name);
std::string CheckPathPattern(std::string_view pattern);
std::string CheckHeaderName(std::string_view name);
std::string CheckHeaderValue(std::string_view value);
std::string CheckSourceHeader(std::string_view name);  // of requests to a config source
std::string CheckForwardPattern(std::string_view pattern);
std::string CheckKafkaSetting(std::string_view name);
std::string CheckKafkaValue(std::string_view value);
std::string CheckMoment(std::string_view time);

/// Kafka settings that name no secret even when an environment variable filled them in.
bool IsPublicKafkaSetting(std::string_view name);

/// A URL that carries a user or password: never shown in a fault.
bool HoldsCredentials(std::string_view url);

/// For headers, whose names do not care for case.
std::string LowerCase(std::string_view text);

}  // namespace posthorn::config
