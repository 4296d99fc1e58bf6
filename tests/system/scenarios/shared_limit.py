"""Three subscriptions share one named limit over two workers: two with a backlog get their part of it in every second, the third, whose
endpoint hangs, keeps nothing from them; together they never exceed it."""

import collections
import json

import checks
import posthorn_system as system

LIMIT_SECONDS = 70
RATE = 200
SECONDS = 5


def run(test):
    topics = {name: test.topic(name, partitions=6) for name in ("orders", "items")}
    for topic in topics.values():
        test.produce(topic, 4_000)
    sink, hanging = test.sink(), test.sink(name="hanging")
    hanging.set(latency_ms=60_000)
    test.deployment()
    test.rates.set(test.write_subscriptions(json.dumps({
        "instances": 2,
        "limits": {"partner": {"max_rate": f"{RATE}/s"}},
        "subscriptions": [
            {"name": "billing", "topic": topics["orders"], "endpoint": sink.endpoint, "limit": "partner"},
            {"name": "audit", "topic": topics["items"], "endpoint": sink.endpoint, "limit": "partner"},
            {"name": "stuck", "topic": topics["items"], "endpoint": hanging.endpoint, "limit": "partner", "timeout": "3s",
             "max_in_flight": 4}]}) + "\n"), RATE)
    test.watch_labels("partner")
    test.fleet_of(2)
    first = system.next_label() + 3
    system.await_label(first + SECONDS)

    labels = test.labels("partner")
    checks.never_above(test.rates, labels)
    checks.used_in_full(labels, RATE, first, first + SECONDS - 1)
    parts = collections.Counter((request.subscription, request.second) for request in sink.requests())
    for second in range(first, first + SECONDS):
        billing, audit = parts[("billing", second)], parts[("audit", second)]
        # Both have something to send on six partitions: half each, but for what spills over the second's ends.
        checks.require(abs(billing - audit) <= 0.3 * RATE, f"in {second} billing had {billing} attempts, audit {audit}")
    total = {name: sum(count for (who, second), count in parts.items() if who == name and first <= second < first + SECONDS)
             for name in ("billing", "audit")}
    test.say(f"labels {labels}, attempts in {SECONDS} s: {total}, stuck: {len(hanging.requests())}")
    checks.require(abs(total["billing"] - total["audit"]) <= 0.1 * sum(total.values()), f"unequal parts: {total}")
    checks.require(hanging.requests(), "the hanging endpoint got nothing at all")
    checks.never_above_at_sink(test.rates, collections.Counter(r.second for r in sink.requests() + hanging.requests()), 2, sink.skew)
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
