// The yardstick: the least a program on libcurl and librdkafka can do. One consumer with all partitions assigned, one
// thread, one multi handle, K requests in flight, every option that was found to help, and nothing else: no group, no
// offsets, no limit, no retry, no headers of the message. Delivers M messages and says what that cost.

#include <curl/curl.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/bench/kafka_pieces.h"

namespace posthorn::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string brokers;
  std::string topic;
  std::string endpoint;
  std::uint64_t messages = 200'000;
  std::size_t in_flight = 64;
};

struct Cost {
  std::uint64_t delivered = 0;
  double cpu_us = 0;
  Clock::time_point at;
};

Cost CostAt(std::uint64_t delivered) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return {delivered, microseconds(usage.ru_utime) + microseconds(usage.ru_stime), Clock::now()};
}

ClientPtr MakeConsumer(const Arguments& arguments) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  Set(conf, "bootstrap.servers", arguments.brokers);
  Set(conf, "group.id", "bare-loop");  // needed to assign, never joined
  Set(conf, "enable.auto.commit", "false");
  Set(conf, "enable.auto.offset.store", "false");
  auto consumer = MakeClient(RD_KAFKA_CONSUMER, conf);
  rd_kafka_poll_set_consumer(consumer.get());
  const std::int32_t partitions = PartitionCount(consumer.get(), arguments.topic);
  rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
  for (std::int32_t i = 0; i < partitions; ++i) {
    rd_kafka_topic_partition_list_add(list, arguments.topic.c_str(), i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  const auto error = rd_kafka_assign(consumer.get(), list);
  rd_kafka_topic_partition_list_destroy(list);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2str(error));
  return consumer;
}

struct Request {
  CURL* easy = nullptr;
  MessagePtr message;  // the body is sent from where librdkafka has it
};

std::size_t Drop(char*, std::size_t size, std::size_t count, void*) { return size * count; }

class Requests {
 public:
  explicit Requests(const Arguments& arguments)
      : url_(curl_url()), multi_(curl_multi_init()), all_(arguments.in_flight) {
    if (curl_url_set(url_, CURLUPART_URL, arguments.endpoint.c_str(), 0) != CURLUE_OK) {
      throw std::runtime_error("not a URL: " + arguments.endpoint);
    }
    headers_ = curl_slist_append(headers_, "content-type: application/octet-stream");
    headers_ = curl_slist_append(headers_, "Accept:");
    headers_ = curl_slist_append(headers_, "Expect:");
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(all_.size()));
    for (Request& request : all_) {
      request.easy = MakeEasy(request);
      free_.push_back(&request);
    }
  }
  ~Requests() {
    for (Request& request : all_) {
      if (request.message) curl_multi_remove_handle(multi_, request.easy);
      curl_easy_cleanup(request.easy);
    }
    curl_multi_cleanup(multi_);
    curl_slist_free_all(headers_);
    curl_url_cleanup(url_);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  [[nodiscard]] bool has_room() const { return !free_.empty(); }
  [[nodiscard]] bool idle() const { return free_.size() == all_.size(); }

  void Start(MessagePtr message) {
    Request& request = *free_.back();
    free_.pop_back();
    curl_easy_setopt(request.easy, CURLOPT_POSTFIELDS,
                     message->len == 0 ? "" : static_cast<const char*>(message->payload));
    curl_easy_setopt(request.easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(message->len));
    request.message = std::move(message);
    curl_multi_add_handle(multi_, request.easy);
  }
  void Perform() {
    int running = 0;
    curl_multi_perform(multi_, &running);
  }
  void Wait() { curl_multi_poll(multi_, nullptr, 0, 100, nullptr); }
  /// Returns how many were delivered since the last call.
  std::uint64_t Collect() {
    std::uint64_t delivered = 0;
    int left = 0;
    while (const CURLMsg* done = curl_multi_info_read(multi_, &left)) {
      char* of_easy = nullptr;
      curl_easy_getinfo(done->easy_handle, CURLINFO_PRIVATE, &of_easy);
      auto& request = *static_cast<Request*>(static_cast<void*>(of_easy));
      long status = 0;
      curl_easy_getinfo(request.easy, CURLINFO_RESPONSE_CODE, &status);
      if (done->data.result != CURLE_OK || status / 100 != 2) {
        throw std::runtime_error(std::string("a request failed: ") + curl_easy_strerror(done->data.result));
      }
      curl_multi_remove_handle(multi_, request.easy);
      request.message.reset();
      free_.push_back(&request);
      ++delivered;
    }
    return delivered;
  }

 private:
  CURL* MakeEasy(Request& request) {
    CURL* easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_CURLU, url_);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 5000L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Drop);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &request);
    return easy;
  }

  CURLU* url_;
  CURLM* multi_;
  curl_slist* headers_ = nullptr;
  std::vector<Request> all_;
  std::vector<Request*> free_;
};

std::string StatusLine(const char* name) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return "0";
  std::string value = "0";
  char line[256];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    const std::string text(line);
    if (text.rfind(name, 0) == 0)
      value = std::to_string(std::strtoul(text.c_str() + std::string(name).size() + 1, nullptr, 10));
  }
  std::fclose(file);
  return value;
}

int Run(const Arguments& arguments) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const ClientPtr consumer = MakeConsumer(arguments);
  Cost first;
  Cost last;
  std::string resident;
  std::string threads;
  {
    Requests requests(arguments);
    std::uint64_t started = 0;
    std::uint64_t delivered = 0;
    while (delivered < arguments.messages) {
      requests.Perform();
      const std::uint64_t collected = requests.Collect();
      if (delivered == 0 && collected > 0) first = CostAt(collected);
      delivered += collected;
      bool added = false;
      while (requests.has_room() && started < arguments.messages) {
        MessagePtr message(rd_kafka_consumer_poll(consumer.get(), requests.idle() ? 100 : 0));
        if (!message) break;
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
        requests.Start(std::move(message));
        ++started;
        added = true;
      }
      if (!added && !requests.idle()) requests.Wait();
    }
    last = CostAt(delivered);
    resident = StatusLine("VmHWM:");
    threads = StatusLine("Threads:");
  }
  const double seconds = std::chrono::duration<double>(last.at - first.at).count();
  const auto steady = static_cast<double>(last.delivered - first.delivered);
  std::printf(
      "{\"delivered\":%llu,\"seconds\":%.3f,\"cpu_us\":%.2f,\"cpu_us_with_start\":%.2f,\"resident_kb\":%s,\"threads\":%"
      "s}\n",
      static_cast<unsigned long long>(last.delivered), seconds, (last.cpu_us - first.cpu_us) / steady,
      last.cpu_us / static_cast<double>(last.delivered), resident.c_str(), threads.c_str());
  rd_kafka_consumer_close(consumer.get());
  return 0;
}

}  // namespace
}  // namespace posthorn::bench

int main(int argc, char** argv) {
  posthorn::bench::Arguments arguments;
  CLI::App app("A bare libcurl loop on a bare librdkafka consumer, as a yardstick");
  app.add_option("--brokers", arguments.brokers)->required();
  app.add_option("--topic", arguments.topic)->required();
  app.add_option("--endpoint", arguments.endpoint)->required();
  app.add_option("--messages", arguments.messages)->capture_default_str();
  app.add_option("--in-flight", arguments.in_flight)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return posthorn::bench::Run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bare_loop: %s\n", error.what());
    return 1;
  }
}
