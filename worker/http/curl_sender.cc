#include "worker/http/curl_sender.h"

#include <curl/curl.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "config/sources/libcurl_basics.h"
#include "worker/http/curl_target.h"
#include "worker/http/multi_handle.h"
#include "worker/http/socket_poll.h"
#include "worker/http/transfer.h"

namespace posthorn::http {

using delivery::AttemptHandler;
using delivery::Message;
using delivery::Response;

namespace {

// A target with few requests at once shares a multi handle (each costs two descriptors and about 40 kB) with other such
// targets; beyond that it gets handles of its own, so that a busy target never pushes out its neighbours' connections.
constexpr std::size_t kSharedTransfers = 4;
constexpr std::size_t kSharedHomes = MultiHandle::kMaxTransfers / kSharedTransfers;

class Share {
 public:
  Share() : share_(curl_share_init()) {
    if (share_ == nullptr) throw std::bad_alloc();
    curl_share_setopt(share_, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(share_, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  }
  ~Share() { curl_share_cleanup(share_); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  [[nodiscard]] CURLSH* get() const { return share_; }

 private:
  CURLSH* share_;
};

}  // namespace

class CurlSender::Engine final : public MultiHandle::Driver, public CurlTarget::Registry {
 public:
  Engine(runtime::AsioLoop& loop, CurlSenderOptions options)
      : loop_(loop),
        options_(std::move(options)),
        poll_(loop.io_context(), [this] { OnSockets(); }),
        timer_(loop.MakeTimer([this] { OnTimer(); })),
        sweep_timer_(loop.MakeTimer([this] { Sweep(); })) {}

  ~Engine() override {
    closing_ = true;
    while (!active_.empty()) End(*active_.back(), "cancelled");
    for (CurlTarget* target : targets_) target->Detach();
    multis_.clear();  // closes their connections through poll_, and calls back into this object
  }

  std::shared_ptr<delivery::Target> Prepare(const config::Subscription& subscription) {
    auto target = std::make_shared<CurlTarget>(
        subscription, options_.user_agent, AnswerLimits{options_.body_cap, options_.header_cap},
        static_cast<long>(options_.idle_connection.count()), share_.get(), *this);
    target->registry_index = targets_.size();
    targets_.push_back(target.get());
    return target;
  }

  void Send(const std::shared_ptr<delivery::Target>& for_target, const Message& message, AttemptHandler& handler) {
    auto target = std::static_pointer_cast<CurlTarget>(for_target);
    Transfer& transfer = target->Take();
    transfer.inside_callback = &inside_callback_;
    transfer.Begin(target, message, handler, loop_.now().steady);
    transfer.index = active_.size();
    active_.push_back(&transfer);
    target->last_used = loop_.now().steady;
    transfer.refused = target->fault();
    if (closing_) return;  // the destructor ends it
    if (!sweeping_) ArmSweep();
    if (inside_callback_ || !transfer.refused.empty()) {
      Postpone(transfer);
    } else {
      Start(transfer);
    }
  }

  void Cancel(AttemptHandler& handler) {
    const auto found =
        std::find_if(active_.begin(), active_.end(), [&](const Transfer* t) { return t->handler == &handler; });
    if (found != active_.end()) End(**found, "cancelled");
  }

  [[nodiscard]] std::size_t in_flight() const { return active_.size(); }
  [[nodiscard]] std::size_t connections() const {
    std::size_t sum = 0;
    for (const auto& multi : multis_) sum += multi->connections();
    return sum;
  }

 private:
  // CurlTarget::Registry
  void Gone(CurlTarget& target) override {
    for (MultiHandle* multi : target.own) multi->exclusive = nullptr;
    if (target.shared != nullptr) --target.shared->homes;
    targets_[target.registry_index] = targets_.back();
    targets_[target.registry_index]->registry_index = target.registry_index;
    targets_.pop_back();
  }

  // MultiHandle::Driver
  [[nodiscard]] runtime::SteadyTime SteadyNow() const override { return loop_.now().steady; }

  void WantsRun(MultiHandle& multi) override {
    if (multi.wants_run || closing_) return;
    multi.wants_run = true;
    to_run_.push_back(&multi);
    PostFlush();
  }

  void WantsRunAt(MultiHandle& /*multi*/, runtime::SteadyTime at) override {
    if (closing_ || (armed_ && *armed_ <= at)) return;
    armed_ = at;
    timer_->Arm(at);
  }

  /// libcurl gets what was sent since, and everything it said it wants to do at once, in one go at the end of a wake-up
  /// of ours or in one posted handler.
  void PostFlush() {
    if (inside_dispatch_ || flush_posted_) return;
    flush_posted_ = true;
    loop_.Post([this, alive = std::weak_ptr<int>(alive_)] {
      if (alive.expired()) return;
      flush_posted_ = false;
      Dispatch([] {});
    });
  }

  void OnSockets() {
    loop_.Touch();
    Dispatch([this] {
      for (const SocketPoll::Event& event : poll_.Wait()) {
        if (!poll_.StillWanted(event)) continue;
        event.owner->SocketReady(event.fd, event.ready);
        Touch(*event.owner);
      }
    });
    poll_.Rearm();
  }

  void OnTimer() {
    armed_.reset();
    const auto now = loop_.now().steady;
    Dispatch([this, now] {
      for (std::size_t i = 0; i < multis_.size(); ++i) {
        MultiHandle& multi = *multis_[i];
        if (multi.deadline() && *multi.deadline() <= now) {
          multi.Run();
          Touch(multi);
        }
      }
    });
    for (const auto& multi : multis_) {
      if (multi->deadline()) WantsRunAt(*multi, *multi->deadline());
    }
  }

  template <typename Work>
  void Dispatch(Work work) {
    inside_dispatch_ = true;
    work();
    CollectFinished();
    StartPostponed();
    // One round: what this brings up anew waits for the next wake-up, so that no target can hold the loop.
    running_.swap(to_run_);
    for (MultiHandle* multi : running_) {
      multi->wants_run = false;
      multi->Run();
      Touch(*multi);
    }
    running_.clear();
    CollectFinished();
    inside_dispatch_ = false;
    if (!to_run_.empty() || !postponed_.empty() || orphans_ != 0) PostFlush();
  }

  void Touch(MultiHandle& multi) {
    if (multi.touched) return;
    multi.touched = true;
    touched_.push_back(&multi);
  }

  void CollectFinished() {
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      while (const auto finished = touched_[i]->NextFinished()) {
        char* of_easy = nullptr;
        curl_easy_getinfo(finished->easy, CURLINFO_PRIVATE, &of_easy);
        auto& transfer = *static_cast<Transfer*>(static_cast<void*>(of_easy));
        Finish(transfer, transfer.Conclude(finished->code, loop_.now()));
      }
      touched_[i]->touched = false;
    }
    touched_.clear();
  }

  void Postpone(Transfer& transfer) {
    postponed_.push_back(&transfer);
    PostFlush();
  }

  void StartPostponed() {
    while (orphans_ != 0) {
      const auto orphan =
          std::find_if(active_.begin(), active_.end(), [](const Transfer* t) { return t->handler == nullptr; });
      assert(orphan != active_.end());
      Release(**orphan);
    }
    std::vector<Transfer*> postponed;
    postponed.swap(postponed_);
    std::reverse(postponed.begin(), postponed.end());
    // Handlers may cancel others of this list: those are found in it no more.
    starting_ = &postponed;
    while (!postponed.empty()) {
      Transfer& transfer = *postponed.back();
      postponed.pop_back();
      if (transfer.refused.empty()) {
        Start(transfer);
      } else {
        Response response = transfer.ConcludeEarly(transfer.refused, loop_.now());
        response.verdict = delivery::Verdict::kRetry;
        Finish(transfer, response);
      }
    }
    starting_ = nullptr;
  }

  void Start(Transfer& transfer) {
    MultiHandle& multi = ChooseMulti(*transfer.target);
    if (multi.Add(transfer.easy())) {
      transfer.multi = &multi;
      return;
    }
    transfer.refused = "out of memory";
    Postpone(transfer);
  }

  MultiHandle& ChooseMulti(CurlTarget& target) {
    for (MultiHandle* multi : target.own) {
      if (multi->transfers() < MultiHandle::kMaxTransfers) return *multi;
    }
    if (target.own.empty() && target.in_use() <= kSharedTransfers) {
      if (target.shared == nullptr) {
        target.shared = &SharedMulti();
        ++target.shared->homes;
      }
      return *target.shared;
    }
    MultiHandle& multi = NewMulti();
    multi.exclusive = &target;
    target.own.push_back(&multi);
    return multi;
  }

  MultiHandle& SharedMulti() {
    for (const auto& multi : multis_) {
      if (multi->shared && multi->homes < kSharedHomes) return *multi;
    }
    MultiHandle& multi = NewMulti();
    multi.shared = true;
    return multi;
  }

  MultiHandle& NewMulti() {
    multis_.push_back(std::make_unique<MultiHandle>(poll_, *this));
    return *multis_.back();
  }

  /// Before its time; also used by the destructor.
  void End(Transfer& transfer, std::string_view error) {
    const Response response = transfer.ConcludeEarly(error, loop_.now());
    if (inside_callback_ && transfer.multi != nullptr) {
      // libcurl is on the stack and takes nothing back now.
      AttemptHandler* handler = std::exchange(transfer.handler, nullptr);
      ++orphans_;
      handler->OnFinished(response);
      return;
    }
    Finish(transfer, response);
  }

  void Finish(Transfer& transfer, const Response& response) {
    AttemptHandler* const handler = transfer.handler;
    const auto target = transfer.target;  // the error text lives there
    const auto record = transfer.record;
    Release(transfer);
    if (handler != nullptr) handler->OnFinished(response);
  }

  void Release(Transfer& transfer) {
    if (transfer.handler == nullptr) --orphans_;
    if (transfer.multi != nullptr) {
      transfer.multi->Remove(transfer.easy());
    } else {
      std::erase(postponed_, &transfer);
      if (starting_ != nullptr) std::erase(*starting_, &transfer);
    }
    transfer.multi = nullptr;
    transfer.handler = nullptr;
    transfer.record = nullptr;
    active_[transfer.index] = active_.back();
    active_[transfer.index]->index = transfer.index;
    active_.pop_back();
    const auto target = std::move(transfer.target);
    target->GiveBack(transfer);
  }

  void ArmSweep() {
    sweeping_ = true;
    sweep_timer_->Arm(loop_.now().steady +
                      std::chrono::duration_cast<runtime::Nanoseconds>(options_.idle_connection) / 2);
  }

  void Sweep() {
    sweeping_ = false;
    const auto idle_before = loop_.now().steady - options_.idle_connection;
    bool again = false;
    for (CurlTarget* target : targets_) {
      if (!target->holds_transfers() && target->shared == nullptr) continue;
      if (target->last_used > idle_before || target->in_use() != 0) {
        again = true;
        continue;
      }
      target->FreeUnused();
      if (target->shared != nullptr) {
        --target->shared->homes;
        target->shared = nullptr;
      }
    }
    std::erase_if(multis_, [&](const auto& multi) {
      if (multi->transfers() != 0 || multi->wants_run || multi->homes != 0) return false;
      if (multi->exclusive != nullptr) {
        if (multi->idle_since() > idle_before) return false;
        std::erase(multi->exclusive->own, multi.get());
      }
      return true;
    });
    if (again || !multis_.empty()) ArmSweep();
  }

  runtime::AsioLoop& loop_;
  const CurlSenderOptions options_;
  SocketPoll poll_;
  Share share_;
  std::vector<std::unique_ptr<MultiHandle>> multis_;
  std::vector<CurlTarget*> targets_;
  std::vector<Transfer*> active_;
  std::vector<Transfer*> postponed_;            // libcurl gets them, or they fail, in the next wake-up
  std::vector<Transfer*>* starting_ = nullptr;  // the part of them being worked on
  std::vector<MultiHandle*> touched_;
  std::vector<MultiHandle*> to_run_;
  std::vector<MultiHandle*> running_;
  std::size_t orphans_ = 0;  // transfers without a handler that libcurl still has
  bool inside_callback_ = false;
  bool inside_dispatch_ = false;
  bool flush_posted_ = false;
  bool closing_ = false;
  bool sweeping_ = false;
  std::optional<runtime::SteadyTime> armed_;
  std::unique_ptr<runtime::Timer> timer_;
  std::unique_ptr<runtime::Timer> sweep_timer_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

CurlSender::CurlSender(runtime::AsioLoop& loop, CurlSenderOptions options) {
  config::StartLibcurl();
  if (options.user_agent.empty()) options.user_agent = "posthorn/" POSTHORN_VERSION;
  engine_ = std::make_unique<Engine>(loop, std::move(options));
}

CurlSender::~CurlSender() = default;

std::shared_ptr<delivery::Target> CurlSender::Prepare(const config::Subscription& subscription) {
  return engine_->Prepare(subscription);
}

void CurlSender::Send(const std::shared_ptr<delivery::Target>& target, const Message& message,
                      AttemptHandler& handler) {
  engine_->Send(target, message, handler);
}

void CurlSender::Cancel(AttemptHandler& handler) { engine_->Cancel(handler); }

std::size_t CurlSender::in_flight() const { return engine_->in_flight(); }

std::size_t CurlSender::connections() const { return engine_->connections(); }

}  // namespace posthorn::http
