#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "config/sources/source.h"
#include "worker/kafka/client_config.h"

namespace posthorn::kafka {

/// The subscriptions' documents from a topic of documents (document_topic.h): read to its end, then followed.
///
/// A revision is a digest of all documents; its number is the offset of the newest record. What one transaction wrote
/// comes as one revision, and nothing that was not committed. When the topic is away, or never held a document, the
/// documents stay as they were, Failed says why, and it is looked for; when it is made anew, it is read anew.
///
/// Threads  One of its own from the first Next on, beside those of two Kafka clients.
/// Time     A change is returned about 100 ms after it was committed. Every 2 s it is asked whether the topic is still
///          the one that was read, so a new one is read within about 3 s. The end takes up to about 2 s while the
///          cluster does not answer or the topic has just been deleted.
/// Errors   None ends it. Records that are no documents are left out and counted (Ignored).
class KafkaTopicSource final : public config::Source {
 public:
  /// `config`: ClientConfig::ForSubscriptions. Null and `error` set when a client cannot be made from it. Opens no
  /// connection yet.
  static std::unique_ptr<KafkaTopicSource> Create(const ClientConfig& config, const std::string& topic,
                                                  std::string& error);
  ~KafkaTopicSource() override;

  config::Outcome Next(const std::string& have, std::chrono::milliseconds wait, std::stop_token stop) override;
  std::string Describe() const override;
  std::uint64_t Ignored() const override;

 private:
  class Impl;
  explicit KafkaTopicSource(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace posthorn::kafka
