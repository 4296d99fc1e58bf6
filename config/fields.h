#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "config/model.h"

namespace posthorn::config {

/// Which option of the table fills which field: `visit(key, field)` for each, keys as below the section. The reader
/// assigns through it and the printer shows through it, so that neither can forget an option. What is derived from
/// several options (limits, slot, secrets' names) has no field here.

template <typename S, typename Visit>
requires std::is_same_v<std::remove_const_t<S>, Subscription>
void VisitFields(S& s, Visit&& visit) {
  visit("name", s.name);
  visit("topic", s.topic);
  visit("endpoint", s.endpoint);
  visit("limit", s.limit);
  visit("start", s.start);
  visit("paused", s.paused);
  visit("max_in_flight", s.max_in_flight);
  visit("ordering", s.ordering);
  visit("timeout", s.timeout);
  visit("ttl", s.ttl);
  visit("ttl_from", s.ttl_from);
  visit("max_attempts", s.max_attempts);
  visit("backoff.initial", s.backoff.initial);
  visit("backoff.multiplier", s.backoff.multiplier);
  visit("backoff.max", s.backoff.max);
  visit("backoff.jitter", s.backoff.jitter);
  visit("retry_after_max", s.retry_after_max);
  visit("retry_client_errors", s.retry_client_errors);
  visit("headers", s.headers);
  visit("forward_headers", s.forward_headers);
  visit("dead_letters", s.dead_letters);
  visit("http", s.http);
  visit("tls.ca", s.tls.ca);
  visit("tls.certificate", s.tls.certificate);
  visit("tls.key", s.tls.key);
  visit("tls.server_name", s.tls.server_name);
}

template <typename D, typename Visit>
requires std::is_same_v<std::remove_const_t<D>, Deployment>
void VisitFields(D& d, Visit&& visit) {
  visit("fleet", d.fleet);
  visit("instance", d.instance);
  visit("membership", d.membership);
  visit("kafka", d.kafka);
  visit("admin", d.admin);
  visit("subscriptions.file", d.source.file);
  visit("subscriptions.central_dogma.url", d.source.central_dogma.url);
  visit("subscriptions.central_dogma.project", d.source.central_dogma.project);
  visit("subscriptions.central_dogma.repository", d.source.central_dogma.repository);
  visit("subscriptions.central_dogma.path", d.source.central_dogma.path);
  visit("subscriptions.central_dogma.token", d.source.central_dogma.token);
  visit("subscriptions.central_dogma.ca", d.source.central_dogma.ca);
  visit("subscriptions.kafka_topic.name", d.source.kafka_topic.name);
  visit("subscriptions.kafka_topic.kafka", d.source.kafka_topic.kafka);
  visit("subscriptions.etcd.url", d.source.etcd.url);
  visit("subscriptions.etcd.prefix", d.source.etcd.prefix);
  visit("subscriptions.etcd.user", d.source.etcd.user);
  visit("subscriptions.etcd.password", d.source.etcd.password);
  visit("subscriptions.etcd.ca", d.source.etcd.ca);
  visit("subscriptions.etcd.certificate", d.source.etcd.certificate);
  visit("subscriptions.etcd.key", d.source.etcd.key);
  visit("subscriptions.url.url", d.source.url.url);
  visit("subscriptions.url.every", d.source.url.every);
  visit("subscriptions.url.headers", d.source.url.headers);
  visit("subscriptions.url.ca", d.source.url.ca);
  visit("subscriptions.cache", d.source.cache);
  visit("shards", d.shards);
  visit("memory", d.memory);
  visit("shutdown_timeout", d.shutdown_timeout);
  visit("shares", d.shares);
  visit("control.kafka", d.control_kafka);
  visit("control.partitions", d.control_partitions);
  visit("control.replication", d.control_replication);
  visit("log.level", d.log_level);
  visit("log.format", d.log_json);
  visit("own_readers", d.own_readers);
  visit("commit_requests_per_second", d.commit_requests_per_second);
  visit("max_clock_offset", d.max_clock_offset);
  visit("max_unfinished", d.max_unfinished);
  visit("retry_topic.partitions", d.retry_partitions);
  visit("retry_topic.replication", d.retry_replication);
  visit("retry_topic.retention", d.retry_retention);
}

}  // namespace posthorn::config
