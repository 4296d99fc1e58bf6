#include "config/source_settings.h"

namespace posthorn::config {

std::string ToString(const SourceSettings& settings) {
  switch (settings.kind) {
    case SourceKind::kFile:
      return "file " + settings.file;
    case SourceKind::kCentralDogma: {
      const auto& dogma = settings.central_dogma;
      return "central_dogma " + dogma.url + " " + dogma.project + "/" + dogma.repository + dogma.path;
    }
    case SourceKind::kKafkaTopic:
      return "kafka_topic " + settings.kafka_topic.name;
    case SourceKind::kEtcd:
      return "etcd " + settings.etcd.url + " " + settings.etcd.prefix;
    case SourceKind::kUrl:
      return "url " + settings.url.url.substr(0, settings.url.url.find('?'));
  }
  return {};
}

}  // namespace posthorn::config
