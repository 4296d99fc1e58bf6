#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "config/environment.h"
#include "config/source_settings.h"
#include "config/sources/source.h"

namespace posthorn::config {

/// The values of all keys of etcd that begin with a prefix: each one a document, named by what follows the prefix.
/// Speaks the JSON gateway of etcd's API (3.4 and newer), which every etcd serves at its client address.
///
/// Watches from the revision after the one that was read. A watch that tells of anything only wakes; what counts is one
/// reading of the prefix, which etcd answers as of one revision. It is read again whenever the watch cannot tell: the
/// revisions were compacted away, or the store is another one or older than what was read (restored).
///
/// Time     A change is read within milliseconds.
/// Errors   Failed with what the server said. A user without the right to read, and a wrong password, will not mend by
///          themselves. A token that has expired is replaced by logging in again.
/// Secrets  The password is read anew for every login.
class EtcdSource final : public Source {
 public:
  explicit EtcdSource(EtcdSettings settings, const Environment& environment = SystemEnvironment());
  ~EtcdSource() override;

  Outcome Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) override;
  std::string Describe() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::config
