// The configuration loader: whatever the bytes, there is a value or there are faults, no exception, no file of this
// machine is read, and what is in force reads back as the same.
#include <algorithm>
#include <string>
#include <string_view>

#include "config/effective.h"
#include "config/load.h"
#include "tests/fuzz/require.h"

namespace posthorn {
namespace {

config::Environment NoFiles() {
  return {[](const std::string& name) -> std::optional<std::string> {
            if (name == "SET") return "value";
            return std::nullopt;
          },
          [](const std::string& path, std::string* why) -> std::optional<std::string> {
            if (path == "/secret") return "content\n";
            *why = "No such file or directory";
            return std::nullopt;
          }};
}

template <typename T>
void RequireValueOrFaults(const config::Loaded<T>& loaded) {
  test::Require(loaded.value.has_value() == loaded.faults.empty(), "a value and faults, or neither");
  for (const auto& fault : loaded.faults) test::Require(!fault.rule.empty(), "a fault without a rule");
  const std::string text = ToString(loaded.faults);
  test::Require(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == loaded.faults.size(),
                "a fault is one line");
}

/// Whether something is shown as `***`, so that it cannot read back as what it is.
bool HidesSomething(const config::Snapshot& snapshot) {
  return EffectiveYaml(snapshot).find("***") != std::string::npos;
}

void Subscriptions(const std::string& text, const config::Environment& environment) {
  config::Capabilities all;
  all.http2 = true;
  const auto loaded = config::LoadSubscriptions({{"fuzz.yaml", text}}, all, environment);
  RequireValueOrFaults(loaded);
  if (!loaded || HidesSomething(*loaded.value)) return;
  const auto again = config::LoadSubscriptions({{"fuzz.yaml", EffectiveYaml(*loaded.value)}}, all, environment);
  test::Require(again.value.has_value(), "what is in force is refused");
  auto expected = loaded.value->subscriptions;
  for (auto& subscription : expected) subscription.secret_headers.clear();
  test::Require(again.value->subscriptions == expected, "another subscription when read back");
  test::Require(again.value->limits == loaded.value->limits, "another limit when read back");
  test::Require(again.value->instances == loaded.value->instances, "another number of instances when read back");
}

void Deployment(const std::string& text, const config::Environment& environment) {
  const auto loaded = config::LoadDeploymentText("fuzz.yaml", text, {}, environment);
  RequireValueOrFaults(loaded);
  if (!loaded) return;
  const std::string yaml = EffectiveYaml(*loaded.value);
  if (yaml.find("***") != std::string::npos || !loaded.value->secret_kafka.empty()) return;
  test::Require(config::LoadDeploymentText("fuzz.yaml", yaml, {}, environment).value == loaded.value,
                "another deployment when read back");
}

}  // namespace
}  // namespace posthorn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto environment = posthorn::NoFiles();
  const std::string text(data, data + size);
  posthorn::config::LooksLikeDeployment(text);
  posthorn::Subscriptions(text, environment);
  posthorn::Deployment(text, environment);
  return 0;
}
