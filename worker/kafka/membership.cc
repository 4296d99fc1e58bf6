#include "worker/kafka/membership.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "worker/delivery/retry_record.h"
#include "worker/kafka/client.h"
#include "worker/kafka/cluster_watch.h"
#include "worker/kafka/coverage_check.h"
#include "worker/kafka/doubt_check.h"
#include "worker/kafka/group_question.h"
#include "worker/kafka/guard_state.h"
#include "worker/kafka/log_limit.h"
#include "worker/kafka/partition_feed.h"
#include "worker/kafka/partition_lists.h"
#include "worker/kafka/seek_queue.h"
#include "worker/kafka/steady.h"
#include "worker/kafka/topic_subscription.h"
#include "worker/kafka/watchdog.h"
#include "worker/runtime/log.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::Offset;
using delivery::TopicPartition;
using runtime::Log;
using runtime::LogLevel;

constexpr auto kLongestTurn = 100ms;  // how late a lost assignment is seen at the latest
constexpr auto kSubscribeRetry = 1s;
constexpr auto kCloseTimeout = 10s;
constexpr auto kFarewellTimeout = 5s;

}  // namespace

class Membership::Impl final : public FeedHost {
 public:
  Impl(const ClientConfig& config, ClientPtr consumer, ClientPtr admin, QueueLimits limits)
      : config_(config),
        session_timeout_(config.session_timeout()),
        heartbeat_(config.heartbeat_interval()),
        limits_(limits),
        admin_(std::move(admin)),
        question_(std::make_unique<GroupQuestion>(config, [this] { WakeThread(); })),
        doubts_(guard_, *question_, config.heartbeat_interval(), config.embedded()),
        coverage_(*question_),
        topics_(delivery::RetryTopic(config_.fleet())) {
    Use(std::move(consumer));
  }

  ~Impl() override { Stop(Farewell::kByMembership, kCloseTimeout); }

  void Start(delivery::AssignmentListener& listener, std::function<void(std::string)> on_fenced) {
    listener_ = &listener;
    on_fenced_ = std::move(on_fenced);
    Watch();
    thread_ = std::thread([this] { Run(); });
  }

  void Subscribe(std::set<std::string> topics) {
    {
      const std::lock_guard lock(mutex_);
      wanted_ = std::move(topics);
    }
    WakeThread();
  }

  void Stop(Farewell farewell, std::chrono::milliseconds within);

  MembershipState state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  bool Confirmed() const { return guard_.Confirmed(); }
  void Suspect() {
    guard_.Doubt();
    WakeThread();
  }
  void OnConfirmed(std::function<void()> callback) { on_confirmed_.push_back(std::move(callback)); }

  // FeedHost
  void RequestSeek(std::shared_ptr<QueueFeed> feed, Offset offset, std::uint64_t ticket) override {
    seeks_.Add(std::move(feed), offset, ticket);
    WakeThread();
  }
  void RequestKick(const TopicPartition& partition) override { watch_->Kick(partition); }

 private:
  void Use(ClientPtr consumer);
  void Watch();
  void WakeThread() {
    const std::lock_guard lock(queue_mutex_);
    if (queue_ != nullptr) rd_kafka_queue_yield(queue_.get());
  }
  void Run();
  void Leave();
  void Close();
  template <typename Done>
  bool ServeUntil(rd_kafka_queue_t& queue, Done done);
  void Serve(const rd_kafka_event_t& event);
  void ApplySubscription();
  void ApplyCounts();
  void ServeGuard();
  void LookForPlace();
  void TakePlaceAgain();
  void Assigned(const rd_kafka_topic_partition_list_t* list);
  void Revoked(const rd_kafka_topic_partition_list_t* list);
  void GiveUp(const std::vector<TopicPartition>& partitions, bool lost);
  void GiveUpAll(bool lost);
  void Fenced(std::string reason);
  void OnError(rd_kafka_resp_err_t error, const std::string& text);
  void Leaked(const rd_kafka_message_t& message);
  void TellConfirmed() {
    for (const auto& callback : on_confirmed_) callback();
  }
  void NoteFeeds();
  // A fleet that has parked nothing has no retry topic, and subscribes to it all the same: the subscription of a static
  // member that is back must be the one it had.
  [[nodiscard]] bool IsMissingRetryTopic(rd_kafka_resp_err_t error, std::string_view text) const {
    return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART &&
           text.find(": " + delivery::RetryTopic(config_.fleet()) + ":") != std::string_view::npos;
  }
  [[nodiscard]] bool AssignmentLost() const { return rd_kafka_assignment_lost(consumer_.get()) != 0; }
  [[nodiscard]] bool Cooperative() const {
    const char* protocol = rd_kafka_rebalance_protocol(consumer_.get());
    return protocol != nullptr && std::string_view(protocol) == "COOPERATIVE";
  }
  bool Succeeded(rd_kafka_error_t* error, const char* what);
  [[nodiscard]] std::string MemberId() const {
    char* id = rd_kafka_memberid(consumer_.get());
    const std::string result = id != nullptr ? id : "";
    if (id != nullptr) rd_kafka_mem_free(consumer_.get(), id);
    return result;
  }
  [[nodiscard]] Time NextDeadline() const;

  const ClientConfig config_;
  const std::chrono::milliseconds session_timeout_;
  const std::chrono::milliseconds heartbeat_;
  const QueueLimits limits_;
  ClientPtr consumer_;
  ClientPtr admin_;  // for everything but consuming: it would wait behind the consumer's open fetches
  std::mutex queue_mutex_;
  QueuePtr queue_;  // the consumer's common queue: rebalances and errors, never messages
  delivery::AssignmentListener* listener_ = nullptr;
  std::function<void(std::string)> on_fenced_;
  std::vector<std::function<void()>> on_confirmed_;
  GuardState guard_;
  std::unique_ptr<GroupQuestion> question_;
  DoubtCheck doubts_;
  CoverageCheck coverage_;
  std::unique_ptr<ClusterWatch> watch_;
  SeekQueue seeks_;
  std::atomic<bool> stopping_{false};
  bool leaving_ = false;  // these two are written before stopping_
  Time stop_by_{};

  // The thread's.
  std::map<TopicPartition, std::shared_ptr<QueueFeed>> feeds_;
  TopicSubscription topics_;
  ClusterWatch::Counts known_counts_;
  std::uint64_t lost_doubt_ = 0;  // the newest doubt when the assignment was lost: joining anew settles it
  bool fenced_ = false;
  Time look_at_{};  // when fenced: the next question for our name
  bool ever_assigned_ = false;
  bool settled_ = true;  // at closing: no change of topics is under way
  LogLimit errors_{10s};

  mutable std::mutex mutex_;
  std::optional<std::set<std::string>> wanted_;
  std::optional<ClusterWatch::Counts> counts_;
  MembershipState state_;
  std::thread thread_;
};

void Membership::Impl::Use(ClientPtr consumer) {
  const std::lock_guard lock(queue_mutex_);
  consumer_ = std::move(consumer);
  queue_.reset(rd_kafka_queue_get_consumer(consumer_.get()));
  // Errors of the client and its rebalances in one queue.
  rd_kafka_poll_set_consumer(consumer_.get());
}

void Membership::Impl::Watch() {
  watch_ = std::make_unique<ClusterWatch>(admin_.get(), consumer_.get(), ClusterWatch::Options{},
                                          [this](ClusterWatch::Counts counts) {
                                            {
                                              const std::lock_guard lock(mutex_);
                                              counts_ = std::move(counts);
                                            }
                                            WakeThread();
                                          });
}

void Membership::Impl::Run() {
  Time turned = Now();
  while (!stopping_.load(std::memory_order_acquire)) {
    const Time now = Now();
    // Stopped, swapped out or moved: the group may have gone on without us.
    if (now - turned > session_timeout_ / 2) Suspect();
    turned = now;
    ApplySubscription();
    ApplyCounts();
    seeks_.Serve(consumer_.get());
    if (fenced_)
      LookForPlace();
    else
      ServeGuard();
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::clamp<Time::duration>(NextDeadline() - now, 1ms, kLongestTurn));
    const EventPtr event(rd_kafka_queue_poll(queue_.get(), static_cast<int>(wait.count())));
    if (Now() - turned > session_timeout_ / 2) Suspect();
    if (event != nullptr) Serve(*event);
    turned = Now();
  }
  Close();
}

Time Membership::Impl::NextDeadline() const { return std::min({Now() + kLongestTurn, seeks_.next(), topics_.next()}); }

void Membership::Impl::ApplySubscription() {
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    if (wanted_) {
      changed = *wanted_ != topics_.wanted();
      topics_.Want(*std::exchange(wanted_, std::nullopt));
      state_.subscribed = !topics_.wanted().empty();
    }
  }
  if (changed) watch_->SetTopics(topics_.wanted());
  if (fenced_) return;
  if (const auto error = topics_.Apply(consumer_.get(), !MemberId().empty(), Now());
      error != RD_KAFKA_RESP_ERR_NO_ERROR)
    OnError(error, "subscribing failed");
}

void Membership::Impl::ApplyCounts() {
  std::optional<ClusterWatch::Counts> counts;
  {
    const std::lock_guard lock(mutex_);
    counts = std::exchange(counts_, std::nullopt);
  }
  if (!counts || fenced_) return;
  topics_.Seen(*counts);
  if (*counts != known_counts_) coverage_.Changed(Now());
  known_counts_ = *counts;
  listener_->OnPartitionCounts(*counts);
}

void Membership::Impl::ServeGuard() {
  if (AssignmentLost()) {
    // Its revocation is on the way.
    guard_.Leave();
    doubts_.Reset();
    lost_doubt_ = guard_.doubt();
    return;
  }
  if (doubts_.Serve([this] { return MemberId(); }, [this] { return AssignmentLost(); })) TellConfirmed();
  if (!guard_.Confirmed() || config_.embedded()) return;
  const auto unowned = coverage_.Serve(Now(), known_counts_, [this] { return MemberId(); });
  if (unowned == 0) return;
  Log(LogLevel::kWarning, "partitions have no owner although the group is at rest, joining it anew",
      {{"partitions", unowned}});
  rd_kafka_unsubscribe(consumer_.get());
  topics_.Again(Now() + kSubscribeRetry);
}

void Membership::Impl::Serve(const rd_kafka_event_t& constant) {
  auto* event = const_cast<rd_kafka_event_t*>(&constant);  // librdkafka's accessors take it so
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_REBALANCE: {
      const auto* list = rd_kafka_event_topic_partition_list(event);
      if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        Assigned(list);
      } else {
        Revoked(list);
      }
      {
        const std::lock_guard lock(mutex_);
        ++state_.rebalances;
      }
      coverage_.Changed(Now());
      watch_->RefreshCounts();
      return;
    }
    case RD_KAFKA_EVENT_ERROR: {
      const auto error = rd_kafka_event_error(event);
      const char* text = rd_kafka_event_error_string(event);
      if (error == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_event_error_is_fatal(event) != 0)
        Fenced(text != nullptr ? text : "");
      else if (text == nullptr || !IsMissingRetryTopic(error, text))
        OnError(error, text != nullptr ? text : "");
      return;
    }
    case RD_KAFKA_EVENT_FETCH:
      while (const auto* message = rd_kafka_event_message_next(event)) Leaked(*message);
      return;
    default:
      return;
  }
}

void Membership::Impl::Assigned(const rd_kafka_topic_partition_list_t* given) {
  const auto partitions = ToPartitions(given);
  const bool cooperative = Cooperative();
  std::vector<std::shared_ptr<QueueFeed>> fresh;
  std::vector<std::shared_ptr<delivery::PartitionFeed>> told;
  for (const auto& partition : partitions) {
    if (feeds_.contains(partition)) continue;
    QueuePtr queue(rd_kafka_queue_get_partition(consumer_.get(), partition.topic.c_str(), partition.partition));
    if (queue == nullptr) continue;
    rd_kafka_queue_forward(queue.get(), nullptr);  // before the assign, or messages leak into the common queue
    fresh.push_back(std::make_shared<QueueFeed>(*this, consumer_.get(), partition, std::move(queue), limits_));
    told.push_back(fresh.back());
    feeds_[partition] = fresh.back();
  }
  ever_assigned_ = true;
  topics_.Assigned(Now());
  // Joining is the coordinator's word; only what has been doubted since is still to be asked.
  if (!AssignmentLost()) {
    const bool settled = lost_doubt_ == guard_.doubt() && guard_.Settle(lost_doubt_);
    if (guard_.Join() || settled) TellConfirmed();
  }
  NoteFeeds();
  Log(LogLevel::kInfo, "partitions assigned",
      {{"new", fresh.size()}, {"owned", feeds_.size()}, {"protocol", cooperative ? "cooperative" : "eager"}});
  auto offsets = listener_->OnAssigned(told, [this] { return stopping_.load(std::memory_order_acquire); });
  auto list = ToList(partitions);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const auto& partition = fresh[i]->partition();
    // Stopping: what starts now is taken back at once, unread.
    const Offset offset = i < offsets.size() ? offsets[i] : RD_KAFKA_OFFSET_END;
    fresh[i]->StartAt(offset);
    rd_kafka_topic_partition_list_set_offset(list.get(), partition.topic.c_str(), partition.partition, offset);
  }
  if (cooperative) {
    Succeeded(rd_kafka_incremental_assign(consumer_.get(), list.get()), "incremental assign");
  } else if (const auto error = rd_kafka_assign(consumer_.get(), list.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    OnError(error, "assign failed");
  }
}

void Membership::Impl::Revoked(const rd_kafka_topic_partition_list_t* given) {
  const bool lost = AssignmentLost();
  auto partitions = ToPartitions(given);
  if (lost) {
    guard_.Leave();
    lost_doubt_ = guard_.doubt();
  }
  std::erase_if(partitions, [&](const auto& partition) { return !feeds_.contains(partition); });
  GiveUp(partitions, lost);
  {
    const std::lock_guard lock(mutex_);
    if (lost) ++state_.lost_assignments;
    if (lost || topics_.wanted().empty()) state_.joined = false;
  }
  if (Cooperative()) {
    Succeeded(rd_kafka_incremental_unassign(consumer_.get(), given), "incremental unassign");
  } else if (const auto error = rd_kafka_assign(consumer_.get(), nullptr); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    OnError(error, "unassign failed");
  }
}

void Membership::Impl::GiveUp(const std::vector<TopicPartition>& partitions, bool lost) {
  Log(lost && !partitions.empty() ? LogLevel::kWarning : LogLevel::kInfo,
      lost ? "partitions lost" : "partitions revoked",
      {{"given up", partitions.size()}, {"left", feeds_.size() - partitions.size()}});
  listener_->OnRevoked(partitions, lost);
  for (const auto& partition : partitions) {
    const auto feed = feeds_.extract(partition);
    feed.mapped()->Close();
  }
  NoteFeeds();
}

void Membership::Impl::GiveUpAll(bool lost) {
  std::vector<TopicPartition> all;
  for (const auto& entry : feeds_) all.push_back(entry.first);
  if (!all.empty()) GiveUp(all, lost);
}

void Membership::Impl::NoteFeeds() {
  std::vector<std::shared_ptr<QueueFeed>> feeds;
  const std::lock_guard lock(mutex_);
  state_.owned.clear();
  for (const auto& [partition, feed] : feeds_) {
    state_.owned.push_back(partition);
    feeds.push_back(feed);
  }
  state_.joined = guard_.joined();
  watch_->SetFeeds(std::move(feeds));
}

void Membership::Impl::Fenced(std::string reason) {
  if (fenced_) return;
  fenced_ = true;
  guard_.Leave();
  GiveUpAll(true);
  {
    const std::lock_guard lock(mutex_);
    state_.fenced = true;
    state_.joined = false;
    state_.last_error = reason;
  }
  look_at_ = Now() + heartbeat_;
  if (on_fenced_) on_fenced_(std::move(reason));
}

// Not every fencing is a namesake's: while a member stands still its coordinator may change, and the answer that told
// it its new id be lost. Then its old self keeps the name until its session ends. Who has the name now is never
// disturbed.
void Membership::Impl::LookForPlace() {
  GroupView group;
  const auto is_held = [this](const auto& member) { return member.instance == config_.instance(); };
  if (question_->Take(group) == GroupQuestion::Answer::kGroup &&
      (config_.instance().empty() || std::none_of(group.members.begin(), group.members.end(), is_held)))
    return TakePlaceAgain();
  if (Now() < look_at_) return;
  static_cast<void>(question_->Ask());
  look_at_ = Now() + heartbeat_;
}

void Membership::Impl::TakePlaceAgain() {
  std::string error;
  auto consumer = NewClient(config_, Role::kMember, error);
  if (consumer == nullptr) {
    OnError(RD_KAFKA_RESP_ERR__FAIL, error);
    look_at_ = Now() + heartbeat_;
    return;
  }
  Log(LogLevel::kInfo, "nobody has this instance name any more: the worker takes its place again",
      {{"instance", config_.instance()}});
  watch_.reset();
  ClientPtr old = std::move(consumer_);
  Use(std::move(consumer));
  {
    const Watchdog watchdog("destroying the fenced consumer");
    rd_kafka_destroy_flags(old.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
  Watch();
  watch_->SetTopics(topics_.wanted());
  fenced_ = false;
  ever_assigned_ = false;
  doubts_.Reset();
  lost_doubt_ = guard_.doubt();
  topics_.Again(Now());
  const std::lock_guard lock(mutex_);
  state_.fenced = false;
}

void Membership::Impl::OnError(rd_kafka_resp_err_t error, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    state_.last_error = std::string(rd_kafka_err2name(error)) + ": " + text;
  }
  if (const auto silent = errors_.Admit(error, Now()))
    Log(LogLevel::kWarning, "consumer error, goes on by itself",
        {{"error", rd_kafka_err2name(error)}, {"text", text}, {"not logged", *silent}});
}

// A message in the common queue would never reach its lane. The forwarding set before the assign rules that out.
void Membership::Impl::Leaked(const rd_kafka_message_t& message) {
  if (message.rkt == nullptr) return;
  const auto found = feeds_.find({rd_kafka_topic_name(message.rkt), message.partition});
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    OnError(message.err, rd_kafka_message_errstr(&message));
  } else if (found != feeds_.end()) {
    Log(LogLevel::kError, "message outside its partition's queue",
        {{"topic", found->first.topic}, {"partition", found->first.partition}, {"offset", message.offset}});
  }
}

bool Membership::Impl::Succeeded(rd_kafka_error_t* raw, const char* what) {
  const ErrorPtr error(raw);
  if (error == nullptr) return true;
  OnError(rd_kafka_error_code(error.get()), std::string(what) + ": " + rd_kafka_error_string(error.get()));
  return false;
}

// librdkafka sends no LeaveGroup for a static member that is being closed, but it does for one that unsubscribes.
void Membership::Impl::Leave() {
  if (rd_kafka_unsubscribe(consumer_.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  // Its member id is taken away when the request is sent; closing awaits the answer.
  if (ServeUntil(*queue_, [this] { return MemberId().empty() || fenced_; })) return;
  Log(LogLevel::kWarning, "could not leave the group, the session has to time out");
}

template <typename Done>
bool Membership::Impl::ServeUntil(rd_kafka_queue_t& queue, Done done) {
  while (!done() && Now() < stop_by_) {
    const EventPtr event(rd_kafka_queue_poll(&queue, 10));
    if (event != nullptr) Serve(*event);
  }
  return done();
}

void Membership::Impl::Close() {
  settled_ = topics_.Settled(Now());
  // While still a member: closed in the middle of a rebalance, librdkafka may leave the group before what it has
  // revoked is given up, and others would begin while we end.
  GiveUpAll(AssignmentLost());
  if (leaving_ && config_.static_member() && !fenced_) Leave();
  const Watchdog watchdog("closing the consumer");
  const QueuePtr queue(rd_kafka_queue_new(consumer_.get()));
  const ErrorPtr refused(fenced_ ? nullptr : rd_kafka_consumer_close_queue(consumer_.get(), queue.get()));
  if (!fenced_ && refused == nullptr) {
    const auto closed = [this] { return rd_kafka_consumer_closed(consumer_.get()) != 0; };
    // What is left is to tell the coordinator, who may be away.
    stop_by_ = std::min(stop_by_, Now() + kFarewellTimeout);
    ServeUntil(*queue, closed);
  }
  GiveUpAll(AssignmentLost());  // what a rebalance has brought meanwhile and close did not take back
  guard_.Leave();
}

void Membership::Impl::Stop(Farewell farewell, std::chrono::milliseconds within) {
  if (consumer_ == nullptr) return;
  stop_by_ = Now() + within;
  leaving_ = farewell == Farewell::kLeave;
  stopping_.store(true, std::memory_order_release);
  WakeThread();
  if (thread_.joinable()) thread_.join();
  if (watch_ != nullptr) watch_->Stop();
  {
    const std::lock_guard lock(mutex_);
    state_.joined = false;
  }
  seeks_.Clear();
  const Watchdog watchdog("destroying the consumer");
  const bool closed = rd_kafka_consumer_closed(consumer_.get()) != 0;
  // librdkafka before 2.3 dies when a cooperative member is destroyed between its first join and its first assignment.
  // Whether it has joined cannot be told by now: leaving the group forgets the member's id.
  const bool deadly =
      RD_KAFKA_VERSION < 0x020300ff && listener_ != nullptr && !ever_assigned_ && !topics_.wanted().empty();
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.reset();
  }
  watch_.reset();
  const bool unclosed = !deadly && !closed && !fenced_ && ever_assigned_;
  const bool postponed = ever_assigned_ && !fenced_ && !settled_;  // see TopicSubscription
  if (deadly || unclosed || postponed) {
    Log(deadly || unclosed ? LogLevel::kWarning : LogLevel::kInfo, "consumer abandoned instead of destroyed",
        {{"reason", deadly     ? "no assignment yet"
                    : unclosed ? "close did not end"
                               : "a change of topics is under way"}});
    Abandon(std::move(consumer_));
    if (unclosed) {
      question_->Abandon();
      Abandon(std::move(admin_));
    }
    return;
  }
  question_.reset();
  admin_.reset();
  rd_kafka_destroy_flags(consumer_.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

Membership::Membership(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Membership::~Membership() = default;

std::unique_ptr<Membership> Membership::Create(const ClientConfig& config, std::string& error) {
  auto conf = BuildConf(config, Role::kMember, error);
  if (conf == nullptr) return nullptr;
  const auto limits = LimitsOf(conf.get());
  auto consumer = NewClient(std::move(conf), Role::kMember, error);
  auto admin = NewClient(config, Role::kAdmin, error);
  if (consumer == nullptr || admin == nullptr) return nullptr;
  return std::unique_ptr<Membership>(
      new Membership(std::make_unique<Impl>(config, std::move(consumer), std::move(admin), limits)));
}

void Membership::Start(delivery::AssignmentListener& listener, std::function<void(std::string)> on_fenced) {
  impl_->Start(listener, std::move(on_fenced));
}
void Membership::Subscribe(std::set<std::string> topics) { impl_->Subscribe(std::move(topics)); }
void Membership::Stop(Farewell farewell, std::chrono::milliseconds within) { impl_->Stop(farewell, within); }
MembershipState Membership::state() const { return impl_->state(); }
bool Membership::Confirmed() const { return impl_->Confirmed(); }
void Membership::Suspect() { impl_->Suspect(); }
void Membership::OnConfirmed(std::function<void()> callback) { impl_->OnConfirmed(std::move(callback)); }

}  // namespace posthorn::kafka
