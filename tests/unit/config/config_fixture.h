#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/load.h"

namespace posthorn::config {

/// An environment of variables and files that exist only here.
inline Environment FakeEnvironment(std::map<std::string, std::string> variables,
                                   std::map<std::string, std::string> files = {}) {
  return {[variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            if (found == variables.end()) return std::nullopt;
            return found->second;
          },
          [files = std::move(files)](const std::string& path, std::string* why) -> std::optional<std::string> {
            const auto found = files.find(path);
            if (found != files.end()) return found->second;
            *why = "No such file or directory";
            return std::nullopt;
          }};
}

inline Loaded<Snapshot> LoadOne(const std::string& text, const Capabilities& capabilities = {},
                                const Environment& environment = FakeEnvironment({})) {
  return LoadSubscriptions({{"s.yaml", text}}, capabilities, environment);
}

inline Loaded<Deployment> LoadText(const std::string& text, const std::vector<std::string>& overrides = {},
                                   const Environment& environment = FakeEnvironment({})) {
  return LoadDeploymentText("posthorn.yaml", text, overrides, environment);
}

/// A whole subscriptions file around one subscription's further keys, two lines each indented by four.
inline std::string OneSubscription(const std::string& keys, const std::string& top = {}) {
  return top + "subscriptions:\n  - name: billing\n    topic: orders\n    endpoint: https://billing.example/hook\n" +
         keys;
}

inline const std::string kDeploymentText =
    "fleet: orders\nkafka: { bootstrap.servers: localhost:9092 }\nsubscriptions: { file: s.yaml }\n";

}  // namespace posthorn::config
