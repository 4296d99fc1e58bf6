#include "config/sources/make_source.h"

#include "config/sources/central_dogma_source.h"
#include "config/sources/etcd_source.h"
#include "config/sources/file_source.h"
#include "config/sources/url_source.h"

namespace posthorn::config {

std::unique_ptr<Source> MakeSource(const SourceSettings& settings, const KafkaTopicMaker& kafka_topic,
                                   std::string* why) {
  switch (settings.kind) {
    case SourceKind::kFile:
      return std::make_unique<FileSource>(settings.file);
    case SourceKind::kKafkaTopic:
      if (kafka_topic) return kafka_topic(settings.kafka_topic, why);
      break;
    case SourceKind::kCentralDogma:
      return std::make_unique<CentralDogmaSource>(settings.central_dogma);
    case SourceKind::kEtcd:
      return std::make_unique<EtcdSource>(settings.etcd);
    case SourceKind::kUrl:
      return std::make_unique<UrlSource>(settings.url);
  }
  *why = "not in this version: " + ToString(settings);
  return nullptr;
}

}  // namespace posthorn::config
