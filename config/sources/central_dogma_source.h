#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "config/environment.h"
#include "config/source_settings.h"
#include "config/sources/source.h"

namespace posthorn::config {

/// The documents of a Central Dogma repository that a path pattern names: entries called `*.yaml`, `*.yml` or `*.json`,
/// and those whose whole path it has, whatever they are called.
/// YAML is stored there as text; a JSON entry becomes a document indented as its web page shows it.
///
/// Watches by long polls on the pattern, never on one file: a file watch stays silent when the file is removed. A poll
/// that tells of a change only wakes; what counts is one reading of all entries at one revision.
///
/// Time     A change is read within milliseconds of its commit. All is read again every few minutes besides, for stores
///          that were swapped without a word.
/// Errors   Failed with what the server said, in a word. 401 and 403 will not mend by themselves. A revision that the
///          store does not know any more (it was reset) is no failure: the newest is read instead.
/// Secrets  The token is read anew for every request.
class CentralDogmaSource final : public Source {
 public:
  explicit CentralDogmaSource(CentralDogmaSettings settings, const Environment& environment = SystemEnvironment());
  ~CentralDogmaSource() override;

  Outcome Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) override;
  std::string Describe() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::config
