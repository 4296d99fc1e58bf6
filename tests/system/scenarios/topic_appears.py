"""A topic that a subscription waits for appears while a worker gives partitions up; the group comes to rest all the same, and again after
the next change."""

import posthorn_system as system

LIMIT_SECONDS = 90


def run(test):
    topic, late = test.topic(partitions=6), f"{test.fleet}.late"
    test.topic("retry", partitions=3)
    sink = test.sink("--latency", "8s")  # a partition is given up only when its requests have been awaited for 5 s
    test.deployment()
    test.subscriptions(*[{"name": name, "topic": of, "endpoint": sink.endpoint, "timeout": "60s"} for name, of in (("billing", topic), ("late", late))])
    test.produce(topic, 600)

    def start(name):
        return test.worker(name, membership="dynamic", kafka__session__timeout__ms=6000)
    first = start("any-0")
    first.await_ready()
    system.eventually("requests hang", lambda: first.metric("posthorn_in_flight") > 0, within=30)
    start("any-1")
    system.eventually("the first gives partitions up", lambda: "partitions revoked" in first.output(), within=30, every=0.02)
    test.broker.create_topic(late, 3)
    test.say("the topic is there")
    test.await_owned(9)
    test.produce(late, 30)
    sink.set(latency_ms=0)
    start("any-2")
    test.await_owned(9)
    system.eventually("everything is delivered", lambda: len(sink.delivered("billing")) == 600 and len(sink.delivered("late")) == 30, within=30)
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
