#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/document.h"
#include "config/fault.h"
#include "ratelimit/max_rate.h"
#include "ratelimit/time.h"

namespace posthorn::simulation {

/// A key of a scenario, for the reader and for `simulate --help`.
struct Field {
  std::string_view section;  // "", "network", "workers[]", "events[]"
  std::string_view key;
  std::string_view form;  // what is written there
  std::string_view help;
};

/// Reads the keys of one map by the rules of the other configuration: every fault at once, each with place, value and
/// rule; unknown keys are faults; nothing that is written is ignored.
///
/// Use     One call for each key that the section may have, then Finish. A value with a fault leaves `out` as it was.
class FieldReader {
 public:
  FieldReader(const config::Node& map, std::string_view section, std::string path, std::span<const Field> fields,
              std::string file, std::vector<config::Fault>& faults);

  /// True: the key is there and its value is in `out`.
  bool Text(std::string_view key, std::string& out);
  bool Integer(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max);
  bool Number(std::string_view key, double& out, double min, double max);
  bool Duration(std::string_view key, ratelimit::Nanoseconds& out, ratelimit::Nanoseconds min,
                ratelimit::Nanoseconds max);
  bool Rate(std::string_view key, ratelimit::MaxRate& out);
  /// `5%` or `0.05`.
  bool Share(std::string_view key, double& out);
  /// The number of the word in `words`.
  bool Word(std::string_view key, std::size_t& out, std::span<const std::string_view> words);
  /// A text, or a list of texts.
  bool Texts(std::string_view key, std::vector<std::string>& out);
  /// A map or a list of maps; null when absent or something else.
  const config::Node* Map(std::string_view key);
  const config::Node* List(std::string_view key);

  [[nodiscard]] bool Has(std::string_view key) const { return map_.Find(key) != nullptr; }
  /// A fault at the value of `key`, or at the map when there is none.
  void AddFault(std::string_view key, std::string rule, std::string hint = {});
  [[nodiscard]] std::string PathOf(std::string_view key) const;

 private:
  const config::Node* Scalar(std::string_view key);
  template <typename Parse>
  auto Parsed(std::string_view key, const Parse& parse) -> decltype(parse("", nullptr));
  void CheckKeys(std::string_view section, std::span<const Field> fields);

  const config::Node& map_;
  std::string path_;
  std::string file_;
  std::vector<config::Fault>& faults_;
};

}  // namespace posthorn::simulation
