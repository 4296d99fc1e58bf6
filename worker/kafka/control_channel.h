#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"
#include "worker/kafka/client_config.h"
#include "worker/runtime/clock.h"

namespace posthorn::kafka {

/// What comes over the control topics. Calls come on two threads of the channel, those about one partition's log on one
/// and those about its reports and its ownership on the other; they must not block.
class ControlListener {
 public:
  virtual ~ControlListener() = default;
  /// The topics are there, with so many partitions each. Once, before everything else.
  virtual void OnReady(std::int32_t partitions) = 0;
  /// This process has (no longer) the partition of `<fleet>.demand`: it is (not) the one to coordinate it.
  virtual void OnOwned(std::int32_t partition, bool owned) = 0;
  /// A record of `<fleet>.demand`, of an owned partition.
  virtual void OnReport(std::int32_t partition, std::string_view bytes) = 0;
  /// A record of `<fleet>.grants`, in the order of the log, from a minute before the channel started; where a broker's
  /// clock is not to be trusted, from a thousand records before.
  virtual void OnLog(std::int32_t partition, std::string_view bytes) = 0;
  /// Everything has been read that was in the log's partition when the channel started.
  virtual void OnLogEnd(std::int32_t partition) = 0;
  /// A report was stored: sent after `sent` and known to be stored at `known` by this worker's clock, and at `stored`
  /// by that of the partition's broker, in whole milliseconds.
  virtual void OnStored(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored,
                        runtime::WallTime known) = 0;
};

/// The control topics of the fleet: `<fleet>.demand`, where workers report, and `<fleet>.grants`, the log of
/// coordinators. Makes them when they are missing; shares the partitions of the first among the workers by a consumer
/// group (`<fleet>.@control`, which no subscription can be named; without committed offsets); reads all of the second.
///
/// Threads  Two of its own, beside the client's; every call from any thread, none waits for Kafka but Stop.
/// Errors   None of its calls fails. Topics that do not stamp records by the brokers' clocks are warned of, once, and
///          OnStored does not come. While Kafka is away nothing comes; what is given to be written may be lost after
///          5 s. Both are all right for control records.
/// Cost     Three Kafka clients.
class ControlChannel {
 public:
  struct Options {
    int partitions = 4;              // where the topics are made
    std::optional<int> replication;  // unset: as many as there are brokers, three at most
    runtime::Clock* clock = nullptr;
    static Options From(const config::Deployment& deployment);
  };
  /// `config`: ClientConfig::ForControl. Null and `error` set when a client cannot be made. Opens no connection yet.
  static std::unique_ptr<ControlChannel> Create(const ClientConfig& config, const Options& options, std::string& error);
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  void Start(ControlListener& listener);
  /// Whether this process wants partitions to coordinate. True at the start.
  void SetCandidate(bool candidate);
  void Report(std::int32_t partition, std::string_view bytes);
  void Append(std::int32_t partition, std::string_view bytes);

  struct Stats {
    std::uint64_t written = 0;
    std::uint64_t failed = 0;     // not known to be stored
    std::uint64_t in_flight = 0;  // given and not answered yet
  };
  [[nodiscard]] Stats stats() const;
  /// Leaves the group; no call of the listener comes any more. What was given to be written is awaited for up to 2 s
  /// when the channel is destroyed. Idempotent.
  void Stop();

 private:
  class Impl;
  explicit ControlChannel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
