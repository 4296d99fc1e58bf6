#include "worker/kafka/offset_client.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include "worker/kafka/steady.h"

namespace posthorn::kafka {
namespace {

using namespace std::chrono_literals;
using delivery::OffsetStore;
using delivery::Position;
using delivery::TopicPartition;

constexpr auto kFetchRetry = 100ms;
constexpr auto kAstray = 1s;

using AlterPtr =
    std::unique_ptr<rd_kafka_AlterConsumerGroupOffsets_t, Deleter<&rd_kafka_AlterConsumerGroupOffsets_destroy>>;
using ListPtr =
    std::unique_ptr<rd_kafka_ListConsumerGroupOffsets_t, Deleter<&rd_kafka_ListConsumerGroupOffsets_destroy>>;

int MillisecondsUntil(Time deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
}

const rd_kafka_topic_partition_t* Find(const rd_kafka_topic_partition_list_t* list, const TopicPartition& partition) {
  return rd_kafka_topic_partition_list_find(const_cast<rd_kafka_topic_partition_list_t*>(list), partition.topic.c_str(),
                                            partition.partition);
}

// Which keys of a Fetch one group's request answers.
struct GroupFetch {
  std::vector<std::size_t> keys;
  bool answered = false;
};

// The requests of one round to one client.
struct Round {
  OffsetClientRef client;
  std::vector<std::pair<std::string, GroupFetch*>> groups;
  std::map<std::uintptr_t, GroupFetch*> open;
};

void Ask(Round& round, const std::string& group, const std::vector<OffsetStore::Key>& keys, GroupFetch& fetch) {
  OffsetClient& client = *round.client;
  auto list = NewPartitionList(fetch.keys.size());
  for (const auto i : fetch.keys)
    rd_kafka_topic_partition_list_add(list.get(), keys[i].partition.topic.c_str(), keys[i].partition.partition);
  const ListPtr request(rd_kafka_ListConsumerGroupOffsets_new(group.c_str(), list.get()));
  const auto tag = ++client.fetch_tags;
  const auto options =
      NewAdminOptions(client.client.get(), RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS, kCoordinatorTimeout, tag);
  round.open[tag] = &fetch;
  if (client.open_fetches == 0) client.fetching_since = Now();
  ++client.open_fetches;
  auto* raw = request.get();
  rd_kafka_ListConsumerGroupOffsets(client.client.get(), &raw, 1, options.get(), client.fetches.get());
}

// The next answer within the time; null: there is none, and a client that owes it for too long is reported.
EventPtr NextAnswer(OffsetClient& client, Time deadline) {
  EventPtr event(rd_kafka_queue_poll(client.fetches.get(), MillisecondsUntil(deadline)));
  if (event == nullptr && Now() - client.fetching_since >= client.patience && !client.silent.exchange(true)) {
    client.answered();
  }
  return event;
}

bool ReadGroup(OffsetClient& client, rd_kafka_event_t* event, const std::vector<OffsetStore::Key>& keys,
               const GroupFetch& fetch, std::vector<std::optional<Position>>& positions) {
  const auto* result = rd_kafka_event_ListConsumerGroupOffsets_result(event);
  client.Heard(rd_kafka_event_error(event));
  if (result == nullptr || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  std::size_t count = 0;
  const auto** groups = rd_kafka_ListConsumerGroupOffsets_result_groups(result, &count);
  if (count != 1) return false;
  if (const auto* error = rd_kafka_group_result_error(groups[0]); error != nullptr) {
    client.Heard(rd_kafka_error_code(error));
    return false;
  }
  const auto* list = rd_kafka_group_result_partitions(groups[0]);
  for (const auto i : fetch.keys) {
    const auto* element = Find(list, keys[i].partition);
    if (element == nullptr || element->err != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
    if (element->offset < 0) continue;
    positions[i] = Position{element->offset, {}};
    if (element->metadata != nullptr)
      positions[i]->metadata.assign(static_cast<const char*>(element->metadata), element->metadata_size);
  }
  return true;
}

}  // namespace

OffsetClient::OffsetClient(ClientPtr made, std::chrono::milliseconds silence_allowed, std::function<void()> on_answer)
    : patience(silence_allowed),
      answered(std::move(on_answer)),
      client(std::move(made)),
      writes(rd_kafka_queue_new(client.get())),
      fetches(rd_kafka_queue_new(client.get())) {
  rd_kafka_queue_cb_event_enable(
      writes.get(), [](rd_kafka_t*, void* self) { static_cast<OffsetClient*>(self)->answered(); }, this);
}

OffsetClient::~OffsetClient() {
  rd_kafka_queue_cb_event_enable(writes.get(), nullptr, nullptr);
  const bool open = open_writes + open_fetches > 0;
  if (open) {
    static_cast<void>(writes.release());
    static_cast<void>(fetches.release());
  }
  writes.reset();
  fetches.reset();
  LetGo(std::move(client), open);
}

void OffsetClient::Heard(rd_kafka_resp_err_t error) {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    astray_since = Time::max();
  } else if (error == RD_KAFKA_RESP_ERR_NOT_COORDINATOR) {
    auto never = Time::max();
    if (astray_since.compare_exchange_strong(never, Now())) answered();
  }
}

OffsetClient::Time OffsetClient::ReplaceAt(std::optional<Time> open_write) const {
  if (silent) return Time::min();
  const Time astray = astray_since;
  return std::min(astray == Time::max() ? astray : astray + kAstray, open_write ? *open_write + patience : Time::max());
}

OffsetStore::Fetched FetchPositions(const std::string& fleet, const std::vector<OffsetStore::Key>& keys, Time deadline,
                                    const std::function<OffsetClientRef(const std::string&)>& client_for) {
  std::vector<std::optional<Position>> positions(keys.size());
  std::map<std::string, GroupFetch> groups;
  for (std::size_t i = 0; i < keys.size(); ++i) groups[keys[i].subscription].keys.push_back(i);
  // A broker may still be loading the offsets after a restart: asked again until the time is over.
  while (true) {
    std::map<OffsetClient*, Round> rounds;
    for (auto& [subscription, fetch] : groups) {
      if (fetch.answered) continue;
      const auto client = client_for(subscription);
      auto& round = rounds[client.get()];
      round.client = client;
      round.groups.emplace_back(fleet + "." + subscription, &fetch);
    }
    // Locked in the order of their addresses, all sent before the first is waited for.
    std::vector<std::unique_lock<std::mutex>> locks;
    for (auto& [client, round] : rounds) {
      locks.emplace_back(client->fetching);
      while (client->open_fetches > 0) {
        const EventPtr late = NextAnswer(*client, deadline);
        if (late == nullptr) return std::nullopt;
        if (rd_kafka_event_type(late.get()) == RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT) --client->open_fetches;
      }
      if (!Reachable(client->client.get(), MillisecondsUntil(deadline))) return std::nullopt;
    }
    for (auto& [client, round] : rounds)
      for (auto& [group, fetch] : round.groups) Ask(round, group, keys, *fetch);
    for (auto& [client, round] : rounds) {
      while (!round.open.empty()) {
        const EventPtr event = NextAnswer(*client, deadline);
        if (event == nullptr) return std::nullopt;
        const auto open = round.open.find(reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event.get())));
        if (open == round.open.end()) continue;
        --client->open_fetches;
        open->second->answered = ReadGroup(*client, event.get(), keys, *open->second, positions);
        round.open.erase(open);
      }
    }
    locks.clear();
    if (std::all_of(groups.begin(), groups.end(), [](const auto& entry) { return entry.second.answered; }))
      return positions;
    if (Now() + kFetchRetry >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kFetchRetry);
  }
}

void SendPositions(OffsetClient& client, const std::string& group, const std::vector<PositionToWrite>& positions,
                   std::uintptr_t tag) {
  auto list = NewPartitionList(positions.size());
  for (const auto& [partition, position] : positions) {
    auto* element = rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.partition);
    element->offset = position.next;
    if (position.metadata.empty()) continue;
    // librdkafka frees it with the list.
    element->metadata_size = position.metadata.size();
    element->metadata = rd_kafka_mem_malloc(client.client.get(), element->metadata_size);
    std::memcpy(element->metadata, position.metadata.data(), position.metadata.size());
  }
  const AlterPtr request(rd_kafka_AlterConsumerGroupOffsets_new(group.c_str(), list.get()));
  const auto options =
      NewAdminOptions(client.client.get(), RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS, kCoordinatorTimeout, tag);
  auto* raw = request.get();
  rd_kafka_AlterConsumerGroupOffsets(client.client.get(), &raw, 1, options.get(), client.writes.get());
  ++client.open_writes;
}

WriteAnswer ReadWriteAnswer(rd_kafka_event_t* event, const std::vector<PositionToWrite>& positions) {
  WriteAnswer answer;
  answer.stored.assign(positions.size(), false);
  answer.error = rd_kafka_event_error(event);
  if (answer.error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    answer.text = rd_kafka_event_error_string(event);
    return answer;
  }
  std::size_t count = 0;
  const auto** groups =
      rd_kafka_AlterConsumerGroupOffsets_result_groups(rd_kafka_event_AlterConsumerGroupOffsets_result(event), &count);
  if (count != 1) {
    answer.error = RD_KAFKA_RESP_ERR__BAD_MSG;
    return answer;
  }
  if (const auto* error = rd_kafka_group_result_error(groups[0]); error != nullptr) {
    answer.error = rd_kafka_error_code(error);
    answer.text = rd_kafka_error_string(error);
    return answer;
  }
  // The group's own error says nothing about the partitions.
  const auto* list = rd_kafka_group_result_partitions(groups[0]);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto& partition = positions[i].partition;
    const auto* element = Find(list, partition);
    const auto error = element != nullptr ? element->err : RD_KAFKA_RESP_ERR__BAD_MSG;
    answer.stored[i] = error == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (answer.stored[i]) continue;
    answer.error = error;
    answer.text = partition.topic + "/" + std::to_string(partition.partition) + ": " + rd_kafka_err2str(error);
  }
  return answer;
}

}  // namespace posthorn::kafka
