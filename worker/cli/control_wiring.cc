#include "worker/cli/control_wiring.h"

#include <random>
#include <utility>

#include "worker/kafka/control_channel.h"

namespace posthorn::cli {

class ControlWiring::Impl final : public fleet::ControlLink, public kafka::ControlListener {
 public:
  Impl(const config::Deployment& deployment, const Parts& parts, std::unique_ptr<kafka::ControlChannel> channel)
      : channel_(std::move(channel)), plane_(NodeParts(deployment, parts), *parts.clock) {}
  ~Impl() override { channel_->Stop(); }

  void Start() {
    plane_.Start();
    channel_->Start(*this);
  }
  void Stop() {
    plane_.Leave();
    channel_->Stop();
  }
  [[nodiscard]] const fleet::ControlPlane& plane() const { return plane_; }

  void Report(std::int32_t partition, std::string_view bytes) override { channel_->Report(partition, bytes); }
  void Append(std::int32_t partition, std::string_view bytes) override { channel_->Append(partition, bytes); }
  void SetCandidate(bool candidate) override { channel_->SetCandidate(candidate); }

  void OnReady(std::int32_t partitions) override { plane_.OnReady(partitions); }
  void OnOwned(std::int32_t partition, bool owned) override { plane_.OnOwned(partition, owned); }
  void OnReport(std::int32_t partition, std::string_view bytes) override { plane_.OnReport(partition, bytes); }
  void OnLog(std::int32_t partition, std::string_view bytes) override { plane_.OnLog(partition, bytes); }
  void OnLogEnd(std::int32_t partition) override { plane_.OnLogEnd(partition); }
  void OnStored(std::int32_t partition, runtime::WallTime sent, runtime::WallTime stored,
                runtime::WallTime known) override {
    plane_.OnStored(partition, sent, stored, known);
  }

 private:
  fleet::ControlNode::Parts NodeParts(const config::Deployment& deployment, const Parts& parts) {
    fleet::ControlNode::Parts node;
    node.instance = deployment.instance;
    node.self = parts.process.self;
    node.length = parts.process.length;
    node.max_clock_offset = deployment.max_clock_offset;
    node.limits = parts.limits;
    node.link = this;
    node.demand = parts.demand;
    node.wake = parts.wake;
    return node;
  }

  std::unique_ptr<kafka::ControlChannel> channel_;
  fleet::ControlPlane plane_;
};

ratelimit::Lease::Process ControlWiring::NewProcess(const config::Deployment& deployment, runtime::WallTime now) {
  std::random_device random;
  ratelimit::Lease::Process process;
  process.self = (std::uint64_t{random()} << 32) | random();
  process.slot = deployment.slot;
  process.started = ratelimit::LabelAt(now);
  // Two clocks that are both as far off as they may be, in opposite directions.
  const auto apart = 2 * deployment.max_clock_offset / runtime::Nanoseconds(ratelimit::kWindow);
  process.clock_labels = 1 + static_cast<int>(apart);
  return process;
}

ControlWiring::ControlWiring(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlWiring::~ControlWiring() = default;

std::unique_ptr<ControlWiring> ControlWiring::Create(const config::Deployment& deployment, const Parts& parts,
                                                     std::string* why) {
  const auto client = kafka::ClientConfig::ForControl(deployment);
  if (!deployment.control_kafka.empty()) {
    for (const auto& fault : client.Faults()) *why += (why->empty() ? "control." : "\ncontrol.") + fault;
    if (!why->empty()) return nullptr;
  }
  auto options = kafka::ControlChannel::Options::From(deployment);
  options.clock = parts.clock;
  auto channel = kafka::ControlChannel::Create(client, options, *why);
  if (channel == nullptr) return nullptr;
  return std::unique_ptr<ControlWiring>(
      new ControlWiring(std::make_unique<Impl>(deployment, parts, std::move(channel))));
}

void ControlWiring::Start() { impl_->Start(); }
void ControlWiring::Stop() { impl_->Stop(); }
const fleet::ControlPlane& ControlWiring::plane() const { return impl_->plane(); }

}  // namespace posthorn::cli
