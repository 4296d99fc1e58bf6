// Messages for the benchmarks: as fast as the broker takes them, or at a rate with a line `partition offset time_ns`
// for each, the time read right before the message is handed to librdkafka.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/bench/kafka_pieces.h"

namespace posthorn::bench {
namespace {

struct Arguments {
  std::string brokers;
  std::vector<std::string> topics;
  std::uint64_t messages = 1;
  std::size_t bytes = 200;
  int create = 0;
  double rate = 0;
};

std::int64_t WallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct Reports {
  std::vector<std::int64_t> produced_at;  // by message number
  bool print = false;
  std::uint64_t failed = 0;
};

void OnReport(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  auto& reports = *static_cast<Reports*>(opaque);
  if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    std::fprintf(stderr, "bench_produce: %s\n", rd_kafka_err2str(message->err));
    ++reports.failed;
    return;
  }
  if (!reports.print) return;
  const auto number = static_cast<const std::int64_t*>(message->_private) - reports.produced_at.data();
  std::printf("%d %lld %lld\n", message->partition, static_cast<long long>(message->offset),
              static_cast<long long>(reports.produced_at[static_cast<std::size_t>(number)]));
}

void CreateTopics(rd_kafka_t* client, const Arguments& arguments) {
  constexpr int kTimeoutMs = 30'000;
  const std::unique_ptr<rd_kafka_queue_t, void (*)(rd_kafka_queue_t*)> queue(rd_kafka_queue_new(client),
                                                                             rd_kafka_queue_destroy);
  std::vector<rd_kafka_NewTopic_t*> topics;
  char why[512];
  for (const std::string& name : arguments.topics) {
    topics.push_back(rd_kafka_NewTopic_new(name.c_str(), arguments.create, 1, why, sizeof(why)));
    if (topics.back() == nullptr) throw std::runtime_error(why);
  }
  rd_kafka_CreateTopics(client, topics.data(), topics.size(), nullptr, queue.get());
  const std::unique_ptr<rd_kafka_event_t, void (*)(rd_kafka_event_t*)> event(
      rd_kafka_queue_poll(queue.get(), kTimeoutMs), rd_kafka_event_destroy);
  rd_kafka_NewTopic_destroy_array(topics.data(), topics.size());
  if (!event) throw std::runtime_error("the broker does not answer");
  if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw std::runtime_error(rd_kafka_event_error_string(event.get()));
  }
  std::size_t count = 0;
  const auto* results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto error = rd_kafka_topic_result_error(results[i]);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2str(error));
  }
}

int Run(const Arguments& arguments) {
  const bool paced = arguments.rate > 0;
  Reports reports;
  reports.print = paced;
  reports.produced_at.resize(paced ? arguments.messages : 1);
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  Set(conf, "bootstrap.servers", arguments.brokers);
  Set(conf, "linger.ms", paced ? "0" : "10");
  Set(conf, "acks", paced ? "all" : "1");
  if (paced) Set(conf, "socket.nagle.disable", "true");
  rd_kafka_conf_set_dr_msg_cb(conf, &OnReport);
  rd_kafka_conf_set_opaque(conf, &reports);
  const ClientPtr producer = MakeClient(RD_KAFKA_PRODUCER, conf);
  if (arguments.create > 0) CreateTopics(producer.get(), arguments);
  struct Topic {
    std::unique_ptr<rd_kafka_topic_t, void (*)(rd_kafka_topic_t*)> handle;
    std::uint64_t partitions;
  };
  std::vector<Topic> topics;
  for (const std::string& name : arguments.topics) {
    topics.push_back({{rd_kafka_topic_new(producer.get(), name.c_str(), nullptr), rd_kafka_topic_destroy},
                      static_cast<std::uint64_t>(PartitionCount(producer.get(), name))});
  }

  std::string body(arguments.bytes, 'x');
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < arguments.messages; ++i) {
    if (paced) {
      const auto due = start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::duration<double>(static_cast<double>(i) / arguments.rate));
      while (std::chrono::steady_clock::now() + std::chrono::milliseconds(1) < due) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - std::chrono::steady_clock::now());
        rd_kafka_poll(producer.get(), static_cast<int>(left.count()));
      }
      std::this_thread::sleep_until(due);
    }
    const Topic& topic = topics[i % topics.size()];
    const auto partition = static_cast<std::int32_t>(i / topics.size() % topic.partitions);
    std::int64_t& produced_at = reports.produced_at[paced ? i : 0];
    if (paced) produced_at = WallNs();
    while (rd_kafka_produce(topic.handle.get(), partition, RD_KAFKA_MSG_F_COPY, body.data(), body.size(), nullptr, 0,
                            &produced_at) != 0) {
      if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        throw std::runtime_error(rd_kafka_err2str(rd_kafka_last_error()));
      }
      rd_kafka_poll(producer.get(), 100);
    }
    rd_kafka_poll(producer.get(), 0);
  }
  rd_kafka_flush(producer.get(), 30'000);
  return reports.failed == 0 && rd_kafka_outq_len(producer.get()) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace posthorn::bench

int main(int argc, char** argv) {
  posthorn::bench::Arguments arguments;
  CLI::App app("Produces messages for the benchmarks");
  app.add_option("--brokers", arguments.brokers)->required();
  app.add_option("--topic", arguments.topics, "Repeatable: the messages go round the topics and their partitions")
      ->required();
  app.add_option("--messages", arguments.messages)->capture_default_str();
  app.add_option("--create", arguments.create, "Create the topics with that many partitions first");
  app.add_option("--bytes", arguments.bytes)->capture_default_str();
  app.add_option("--rate", arguments.rate, "Messages a second; prints `partition offset time_ns` for each")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return posthorn::bench::Run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_produce: %s\n", error.what());
    return 1;
  }
}
