"""Subscriptions in a real Central Dogma, etcd, nginx and Kafka topic: changes are taken, and deliveries go on whatever happens to the server."""

import config_servers
import source_course

LIMIT_SECONDS = 270
SERVERS = {"central-dogma": config_servers.CentralDogma, "etcd": config_servers.Etcd, "url": config_servers.Nginx,
           "kafka-topic": config_servers.KafkaTopic}


def run(test):
    # A fleet for each, side by side: they mostly wait.
    test.side_by_side(lambda part, name: source_course.run(part, SERVERS[name]), SERVERS)
