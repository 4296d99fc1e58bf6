#include "config/option_table.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "config/rules.h"

namespace posthorn::config {
namespace {

constexpr std::array<Choice, 2> kMemberships{{{"static"}, {"dynamic"}}};
constexpr std::array<Choice, 2> kShares{{{"static"}, {"adaptive"}}};
constexpr std::array<Choice, 4> kLogLevels{{{"debug"}, {"info"}, {"warning"}, {"error"}}};
constexpr std::array<Choice, 2> kLogFormats{{{"text"}, {"json"}}};
constexpr std::array<Choice, 2> kBursts{{{"smooth"}, {"window"}}};
constexpr std::array<Choice, 2> kStarts{{{"earliest"}, {"latest"}}};
constexpr std::array<Choice, 3> kOrderings{{{"none"}, {"key"}, {"partition"}}};
constexpr std::array<Choice, 2> kTtlFroms{{{"read"}, {"published"}}};
constexpr std::array<Choice, 2> kJitters{{{"full"}, {"none"}}};
constexpr std::array<Choice, 2> kHttpVersions{{{"1.1"}, {"2"}}};

constexpr std::string_view kOnlyFiles = "`subscriptions.file` is the only source so far";

constexpr auto kDeployment = std::to_array<Option>({
    {.path = "fleet",
     .type = Type::kText,
     .required = true,
     .reload = Reload::kStart,
     .check = &CheckFleet,
     .help =
         "Name of the fleet: the Kafka consumer group of its workers, and the prefix of its own topics "
         "(`<fleet>.dead-letters`) and offset groups (`<fleet>.<subscription>`). The same in all its workers; a new "
         "name begins with no stored offsets."},
    {.path = "instance",
     .type = Type::kText,
     .reload = Reload::kStart,
     .check = &CheckInstance,
     .help =
         "Who this worker is, unique in the fleet, the same after a restart. A trailing number (`orders-2`, or `2`) "
         "is its slot, from 0, in static shares. Usually `${HOSTNAME}`. Unset: no slot, dynamic membership."},
    {.path = "membership",
     .type = Type::kEnum,
     .fallback = "",
     .choices = kMemberships,
     .reload = Reload::kStart,
     .help = "`static`: `instance` is the worker's group.instance.id, so that a quick restart moves no partitions. "
             "`dynamic`: every start is a new member. Unset: static when `instance` is set."},
    {.path = "kafka",
     .type = Type::kTextMap,
     .required = true,
     .secret = true,
     .reload = Reload::kStart,
     .check = &CheckKafkaValue,
     .check_key = &CheckKafkaSetting,
     .help =
         "librdkafka's own settings by their own names, passed on as they are; `bootstrap.servers` is needed. Values "
         "may be `file:/path`. What Posthorn must decide itself (group.id, group.instance.id, enable.auto.commit, "
         "enable.auto.offset.store, partition.assignment.strategy) is refused."},
    {.path = "admin",
     .type = Type::kText,
     .reload = Reload::kStart,
     .check = &CheckAddress,
     .help = "Address of metrics, health and state, as `host:port`. Port 0 picks a free one and logs it. Unset: none."},
    {.path = "subscriptions",
     .type = Type::kSection,
     .required = true,
     .reload = Reload::kStart,
     .help = "Where the subscriptions come from; watched while running."},
    {.path = "subscriptions.file",
     .type = Type::kPath,
     .reload = Reload::kStart,
     .help =
         "A subscriptions file, or a directory of such files (`*.yaml`, `*.yml`, `*.json`). A relative path is beside "
         "this file; one given by `--set` is relative to the working directory."},
    {.path = "subscriptions.central_dogma",
     .type = Type::kSection,
     .reload = Reload::kStart,
     .unavailable = kOnlyFiles,
     .help = "Documents of a Central Dogma repository (url, project, repository, path, token)."},
    {.path = "subscriptions.kafka_topic",
     .type = Type::kSection,
     .reload = Reload::kStart,
     .unavailable = kOnlyFiles,
     .help = "Documents of a compacted Kafka topic (name, kafka)."},
    {.path = "subscriptions.etcd",
     .type = Type::kSection,
     .reload = Reload::kStart,
     .unavailable = kOnlyFiles,
     .help = "Documents below a prefix of etcd (url, prefix, user, password)."},
    {.path = "subscriptions.url",
     .type = Type::kSection,
     .reload = Reload::kStart,
     .unavailable = kOnlyFiles,
     .help = "A document fetched again and again (url, every, headers)."},
    {.path = "subscriptions.cache",
     .type = Type::kPath,
     .reload = Reload::kStart,
     .unavailable = "a file is its own last good revision",
     .help = "Directory for the last good revision, for a start while the source is away."},
    {.path = "shards",
     .type = Type::kInteger,
     .fallback = "",
     .min = "1",
     .max = "64",
     .reload = Reload::kStart,
     .help = "Threads that deliver, each with its own part of the partitions. Unset: one per core. Lower it when the "
             "machine is shared."},
    {.path = "memory",
     .type = Type::kSize,
     .fallback = "256MiB",
     .min = "1MiB",
     .max = "1024GiB",
     .reload = Reload::kStart,
     .help = "Bound for all messages held by the worker. Raise it when many slow subscriptions share a worker."},
    {.path = "shutdown_timeout",
     .type = Type::kDuration,
     .fallback = "30s",
     .min = "0ms",
     .max = "1h",
     .reload = Reload::kStart,
     .help = "How long a stopping worker waits for requests on the wire. Keep it below the grace of whoever stops it."},
    {.path = "shares",
     .type = Type::kEnum,
     .fallback = "adaptive",
     .choices = kShares,
     .reload = Reload::kStart,
     .help =
         "How a max-rate is dealt among the workers, the same in all of a fleet. `adaptive`: to those that have work, "
         "by "
         "leases that one of the workers grants over the control topics; without a lease a worker has its slot's part "
         "when `instances` is set, otherwise it waits. `static`: total/N by slot when `instances` is set, otherwise by "
         "the partitions a worker owns; nobody coordinates."},
    {.path = "control",
     .type = Type::kSection,
     .reload = Reload::kStart,
     .help = "The control topics of adaptive shares, `<fleet>.demand` and `<fleet>.grants`."},
    {.path = "control.kafka",
     .type = Type::kTextMap,
     .secret = true,
     .reload = Reload::kStart,
     .check = &CheckKafkaValue,
     .check_key = &CheckKafkaSetting,
     .help =
         "librdkafka's settings for another cluster that holds them: fleets of the same name in several data centres "
         "share their max-rates when they name the same one. Unset: as `kafka`."},
    {.path = "control.partitions",
     .type = Type::kInteger,
     .fallback = "4",
     .min = "1",
     .max = "1000",
     .reload = Reload::kStart,
     .help = "How many the topics are made with: among so many workers the work of coordinating is divided, limit by "
             "limit. Never add partitions to the topics while workers run."},
    {.path = "control.replication",
     .type = Type::kInteger,
     .min = "1",
     .max = "100",
     .reload = Reload::kStart,
     .help = "Replicas where the topics are made; with 3 or more `min.insync.replicas` is 2, otherwise 1. Unset: as "
             "many as there are brokers at that moment, 3 at most."},
    {.path = "log", .type = Type::kSection, .reload = Reload::kStart, .help = "What the worker writes to stderr."},
    {.path = "log.level",
     .type = Type::kEnum,
     .fallback = "info",
     .choices = kLogLevels,
     .reload = Reload::kStart,
     .help = "Lines below this level are not written."},
    {.path = "log.format",
     .type = Type::kEnum,
     .fallback = "text",
     .choices = kLogFormats,
     .reload = Reload::kStart,
     .help = "`text` for people, `json` (one object per line) for collectors."},
    {.path = "own_readers",
     .type = Type::kInteger,
     .fallback = "4",
     .min = "0",
     .max = "32",
     .reload = Reload::kStart,
     .help =
         "How many subscriptions of a topic may read a partition apart from the others, so that these need not wait: "
         "the slow, the stuck, those that come back far behind. With more of them they take turns. Each is one Kafka "
         "client more, made when needed. 0: everybody waits for the slowest of the topic."},
    {.path = "commit_requests_per_second",
     .type = Type::kInteger,
     .fallback = "150",
     .min = "1",
     .max = "100000",
     .reload = Reload::kStart,
     .help =
         "Bound on offset commits per second and worker; each holds one subscription's partitions. Lower it when the "
         "brokers are small; commits then come later, and a killed worker repeats more."},
    {.path = "max_clock_offset",
     .type = Type::kDuration,
     .fallback = "100ms",
     .min = "0ms",
     .max = "10s",
     .reload = Reload::kStart,
     .help =
         "Largest difference between the clocks of two workers. A share that was gained begins that much later, so "
         "that no second is spent twice. With adaptive shares a worker whose clock differs by more from the brokers' "
         "delivers nothing under limits. Raise it when clocks are kept badly."},
    {.path = "max_unfinished",
     .type = Type::kInteger,
     .fallback = "10000",
     .min = "10",
     .max = "1000000",
     .reload = Reload::kStart,
     .help =
         "Messages of a partition between a subscription's oldest unfinished one and its newest. At this bound what "
         "keeps failing while others get through is parked in the retry topic. Lower it to park earlier; what is "
         "finished beyond a failing message and lost from memory by a crash comes again."},
    {.path = "retry_topic",
     .type = Type::kSection,
     .reload = Reload::kStart,
     .help = "How `<fleet>.retry`, where parked messages go on, is made when it is missing."},
    {.path = "retry_topic.partitions",
     .type = Type::kInteger,
     .fallback = "3",
     .min = "1",
     .max = "1000",
     .reload = Reload::kStart,
     .help = "All that a subscription has parked is in one of them, so more than workers help little. A change "
             "while messages are parked may break the order of a key; nothing is lost."},
    {.path = "retry_topic.replication",
     .type = Type::kInteger,
     .min = "1",
     .max = "100",
     .reload = Reload::kStart,
     .help = "Replicas; with 3 or more `min.insync.replicas` is 2, otherwise 1. Unset: as the brokers have it."},
    {.path = "retry_topic.retention",
     .type = Type::kDuration,
     .fallback = "336h",
     .min = "1h",
     .max = "87600h",
     .reload = Reload::kStart,
     .help = "How long Kafka keeps a parked message. Longer than the longest `ttl`: a shorter one loses messages."},
});

constexpr auto kSubscriptions = std::to_array<Option>({
    {.path = "instances",
     .type = Type::kInteger,
     .min = "1",
     .max = "100000",
     .help =
         "N of the static partial limit total/N: how many workers share each max-rate, with slots 0 to N-1. Change it "
         "together with the number of workers. Unset: shares follow the partitions a worker owns."},
    {.path = "allow_empty",
     .type = Type::kBool,
     .fallback = "false",
     .help = "Lets a revision without any subscription be taken. Without it such a revision is refused, so that a lost "
             "file does not stop all deliveries."},
    {.path = "defaults",
     .type = Type::kSection,
     .help = "Any key of a subscription but `name`, `topic` and `endpoint`: in force where a subscription does not say "
             "otherwise. `backoff` and `tls` are joined key by key; lists and maps of values are replaced whole."},
    {.path = "limits", .type = Type::kNamed, .help = "Limits shared by the subscriptions that name them with `limit`."},
    {.path = "limits.*.max_rate",
     .type = Type::kRate,
     .required = true,
     .help = "Attempts of all those subscriptions together, over the whole fleet. 0 stops their deliveries."},
    {.path = "subscriptions", .type = Type::kSections, .help = "What is delivered where: one entry per subscription."},
    {.path = "subscriptions[].name",
     .type = Type::kName,
     .required = true,
     .help = "Unique. Part of the offset group `<fleet>.<name>`: another name begins without stored offsets."},
    {.path = "subscriptions[].topic",
     .type = Type::kText,
     .required = true,
     .check = &CheckTopic,
     .help = "The Kafka topic that is read. A change is a removal and an addition."},
    {.path = "subscriptions[].endpoint",
     .type = Type::kText,
     .required = true,
     .check = &CheckEndpoint,
     .help = "The URL each message is POSTed to: http or https, without user, password or fragment."},
    {.path = "subscriptions[].max_rate",
     .type = Type::kRate,
     .help =
         "Attempts over the whole fleet, retries included, in no wall-clock second more. 0 stops deliveries. Unset: "
         "no limit."},
    {.path = "subscriptions[].limit", .type = Type::kName, .help = "A limit of `limits` instead of an own `max_rate`."},
    {.path = "subscriptions[].burst",
     .type = Type::kEnum,
     .fallback = "smooth",
     .choices = kBursts,
     .help =
         "`smooth` spreads the permits over the second; `window` lets all go at its start. Sharers of a limit say the "
         "same."},
    {.path = "subscriptions[].start",
     .type = Type::kEnum,
     .fallback = "earliest",
     .choices = kStarts,
     .help = "Where a subscription without stored offsets begins."},
    {.path = "subscriptions[].paused",
     .type = Type::kBool,
     .fallback = "false",
     .help = "Starts no attempts while true; offsets stay."},
    {.path = "subscriptions[].max_in_flight",
     .type = Type::kInteger,
     .fallback = "64",
     .min = "1",
     .max = "65536",
     .help = "Requests at once per worker. About rate per worker times response time is needed; more only loads the "
             "endpoint."},
    {.path = "subscriptions[].ordering",
     .type = Type::kEnum,
     .fallback = "none",
     .choices = kOrderings,
     .help = "What waits for an unfinished message: nothing, later messages with its key, later ones of its partition. "
             "With `key`, a message without a key waits for nothing."},
    {.path = "subscriptions[].timeout",
     .type = Type::kDuration,
     .fallback = "5s",
     .min = "1ms",
     .max = "1h",
     .help = "Of one attempt, from connect to the end of the answer."},
    {.path = "subscriptions[].ttl",
     .type = Type::kDuration,
     .fallback = "1h",
     .min = "1ms",
     .max = "8760h",
     .help = "How long a message is tried before it expires (a dead letter). Checked before each attempt."},
    {.path = "subscriptions[].ttl_from",
     .type = Type::kEnum,
     .fallback = "read",
     .choices = kTtlFroms,
     .help = "`read`: from the first time the fleet could have tried it, so that a backlog survives an outage. "
             "`published`: from the record's timestamp, for messages that lose their value."},
    {.path = "subscriptions[].max_attempts",
     .type = Type::kInteger,
     .min = "1",
     .max = "1000000",
     .help = "Attempts of one message before it becomes a dead letter. Unset: until the TTL."},
    {.path = "subscriptions[].backoff", .type = Type::kSection, .help = "The wait between attempts of one message."},
    {.path = "subscriptions[].backoff.initial",
     .type = Type::kDuration,
     .fallback = "1s",
     .min = "1ms",
     .max = "24h",
     .help = "Before attempt 2."},
    {.path = "subscriptions[].backoff.multiplier",
     .type = Type::kNumber,
     .fallback = "2",
     .min = "1",
     .max = "100",
     .help = "Each wait is the one before times this. 1 keeps it fixed."},
    {.path = "subscriptions[].backoff.max",
     .type = Type::kDuration,
     .fallback = "60s",
     .min = "1ms",
     .max = "24h",
     .help = "No wait is longer, `Retry-After` aside."},
    {.path = "subscriptions[].backoff.jitter",
     .type = Type::kEnum,
     .fallback = "full",
     .choices = kJitters,
     .help = "`full` takes a random part of the wait, at least a tenth, so that retries do not come in step."},
    {.path = "subscriptions[].retry_after_max",
     .type = Type::kDuration,
     .fallback = "10min",
     .min = "0ms",
     .max = "24h",
     .help = "Bound on what an endpoint's `Retry-After` can ask for."},
    {.path = "subscriptions[].retry_client_errors",
     .type = Type::kBool,
     .fallback = "false",
     .help = "Retries 4xx answers that otherwise reject the message. For endpoints that answer 4xx while they are "
             "deployed."},
    {.path = "subscriptions[].headers",
     .type = Type::kTextMap,
     .secret = true,
     .check = &CheckHeaderValue,
     .check_key = &CheckHeaderName,
     .help = "Fixed request headers. Values may be `${NAME}` or `file:/path` and are then never shown; Posthorn's own "
             "headers (webhook-*, posthorn-*) and those of the connection cannot be set."},
    {.path = "subscriptions[].forward_headers",
     .type = Type::kTextList,
     .check = &CheckForwardPattern,
     .help = "Record headers that are sent on: names, or prefixes that end in `*`."},
    {.path = "subscriptions[].dead_letters",
     .type = Type::kBool,
     .fallback = "true",
     .help = "Writes what is rejected or expired to `<fleet>.dead-letters`. false: the message is finished without a "
             "record, and a counter says so."},
    {.path = "subscriptions[].http",
     .type = Type::kEnum,
     .fallback = "1.1",
     .choices = kHttpVersions,
     .help = "HTTP version. 2 needs libcurl 8.1 or newer; over http:// it is used without asking first."},
    {.path = "subscriptions[].tls",
     .type = Type::kSection,
     .help = "For https endpoints; the peer is always verified."},
    {.path = "subscriptions[].tls.ca",
     .type = Type::kPath,
     .help = "PEM file of the authorities to trust. Unset: the system's."},
    {.path = "subscriptions[].tls.certificate",
     .type = Type::kPath,
     .help = "PEM file of the client certificate; needs `key`."},
    {.path = "subscriptions[].tls.key",
     .type = Type::kPath,
     .help = "PEM file of the client certificate's key. The file's name is shown, its content never."},
    {.path = "subscriptions[].tls.server_name",
     .type = Type::kText,
     .check = &CheckHost,
     .help = "Name the certificate must have. Unset: the endpoint's host."},
});

constexpr std::string_view kItem = "subscriptions[].";

// Optimal string alignment: a swap of neighbours is one mistake.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::span<const Option> Options(Document document) {
  if (document == Document::kDeployment) return kDeployment;
  return kSubscriptions;
}

const Option* FindOption(Document document, std::string_view path) {
  for (const Option& option : Options(document)) {
    if (option.path == path) return &option;
  }
  return nullptr;
}

bool AllowedInDefaults(std::string_view path_in_subscription) {
  return path_in_subscription != "name" && path_in_subscription != "topic" && path_in_subscription != "endpoint";
}

std::vector<std::string_view> KeysBelow(Document document, std::string_view section) {
  std::string_view prefix = section;
  const bool defaults =
      document == Document::kSubscriptions && (section == "defaults" || section.starts_with("defaults."));
  std::string in_item;
  if (defaults) {
    in_item = std::string(kItem) + std::string(section.substr(std::min(section.size(), std::size_t{9})));
    while (in_item.ends_with('.')) in_item.pop_back();
    prefix = in_item;
  }
  std::vector<std::string_view> keys;
  for (const Option& option : Options(document)) {
    std::string_view rest = option.path;
    if (!prefix.empty()) {
      if (!rest.starts_with(prefix) || rest.size() <= prefix.size() || rest[prefix.size()] != '.') continue;
      rest.remove_prefix(prefix.size() + 1);
    }
    if (rest.find_first_of(".[") != std::string_view::npos) continue;
    if (defaults && section == "defaults" && !AllowedInDefaults(rest)) continue;
    keys.push_back(rest);
  }
  return keys;
}

std::string TypeText(const Option& option) {
  switch (option.type) {
    case Type::kText:
      return "text";
    case Type::kPath:
      return "path";
    case Type::kName:
      return "name";
    case Type::kEnum: {
      std::string text;
      for (const Choice& choice : option.choices) {
        if (!text.empty()) text += " | ";
        text += choice.word;
      }
      return text;
    }
    case Type::kDuration:
      return "duration";
    case Type::kSize:
      return "size";
    case Type::kRate:
      return "rate";
    case Type::kInteger:
      return "integer";
    case Type::kNumber:
      return "number";
    case Type::kBool:
      return "true | false";
    case Type::kTextList:
      return "list of texts";
    case Type::kTextMap:
      return "map of texts";
    case Type::kSection:
      return "map";
    case Type::kSections:
      return "list of maps";
    case Type::kNamed:
      return "map of names to maps";
  }
  return {};
}

std::string_view Nearest(std::string_view written, std::span<const std::string_view> known) {
  // Anything longer is no slip of a known key, and the comparison is quadratic.
  constexpr std::size_t kLongest = 64;
  if (written.size() > kLongest) return {};
  std::string_view nearest;
  std::size_t smallest = std::max<std::size_t>(2, written.size() / 2) + 1;
  for (const std::string_view word : known) {
    const std::size_t distance = Distance(written, word);
    if (distance < smallest && distance < std::max(word.size(), written.size())) {
      smallest = distance;
      nearest = word;
    }
  }
  return nearest;
}

}  // namespace posthorn::config
