"""Two subscriptions on one topic; kafka-consumer-groups shows the lag of each."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 90
MESSAGES = 4_000


def run(test):
    topic = test.topic(partitions=6)
    test.produce(topic, MESSAGES)
    fast, slow = test.sink(name="fast"), test.sink(name="slow")
    test.deployment()
    test.subscriptions({"name": "audit", "topic": topic, "endpoint": fast.endpoint},
                       {"name": "billing", "topic": topic, "endpoint": slow.endpoint, "max_rate": "20/s"}, instances=2)
    test.rates.set(0, 20)
    test.fleet_of(2)
    # The slow one shares the topic's messages and must not hold the fast one back for good.
    system.eventually("the subscription without a limit has everything", lambda: len(fast.delivered()) == MESSAGES, within=30)
    system.eventually("the limited one delivers", lambda: len(slow.delivered()) >= 40, within=10)

    def lags(subscription):
        return test.broker.group_lag(f"{test.fleet}.{subscription}")

    fast_rows = system.eventually("the fast group's lag is 0 in Kafka's own tool", lambda: (
        lambda rows: rows if len(rows) == 6 and all(lag == 0 for _, _, lag in rows.values()) else None)(lags("audit")), within=15, every=0.5)
    test.say(f"audit: {fast_rows}")

    # What the workers say of the lag, before they stop. Each knows its own partitions.
    def seen():
        return sum(worker.metric("posthorn_consumer_lag_records", subscription="billing") for worker in test.workers)
    near = system.eventually("the workers tell the limited one's lag", seen, within=10)
    test.say(f"billing: lag {near:.0f} by the workers' metrics")
    checks.require(abs(near - (MESSAGES - len(slow.delivered()))) <= 100, f"lag by the metrics {near}, delivered {len(slow.delivered())}")

    for worker in test.workers:
        worker.stop()
    rows = lags("billing")
    delivered = len(slow.delivered())
    test.say(f"billing: {rows}, delivered {delivered}")
    checks.require(len(rows) == 6, f"kafka-consumer-groups shows {len(rows)} partitions of billing, not 6")
    checks.require(sum(lag for _, _, lag in rows.values()) == MESSAGES - delivered,
                   f"lag {sum(lag for _, _, lag in rows.values())} in Kafka's own tool after a graceful stop, but {delivered} of {MESSAGES} are delivered")
    checks.never_above_at_sink(test.rates, slow.per_second(), workers=2, skew=slow.skew)
