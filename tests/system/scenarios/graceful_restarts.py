"""Each worker restarted again and again by SIGTERM, with every ordering: nothing is delivered twice, nothing is lost."""

import chaos_checks
import checks
import posthorn_system as system

LIMIT_SECONDS = 150
MESSAGES = 1_200
RATE = 180
ROUNDS = 2


def run(test):
    topic = test.topic(partitions=6)
    test.produce(topic, MESSAGES, keys=50)
    sinks = {ordering: test.sink("--latency", "5ms-60ms", "--fail", "20%", name=ordering) for ordering in ("none", "key", "partition")}
    test.deployment(membership="dynamic")
    test.subscriptions(*[{"name": ordering, "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s", "ordering": ordering,
                          "backoff": {"initial": "100ms", "max": "500ms"}} for ordering, sink in sinks.items()])
    names = [f"any-{number}" for number in range(3)]
    members = {name: test.worker(name) for name in names}
    for worker in members.values():
        worker.await_ready()
    for number in range(ROUNDS):
        for name in names:
            before = sum(len(sink.requests()) for sink in sinks.values())
            system.eventually("deliveries run", lambda: sum(len(sink.requests()) for sink in sinks.values()) > before + RATE, within=20)
            members[name].stop()
            test.workers.remove(members[name])
            members[name] = test.worker(name).await_ready()
        test.say(f"round {number + 1}: each worker was stopped and started")
    produced = test.produced(topic)
    system.eventually("everything is delivered", lambda: all(produced <= sink.delivered() for sink in sinks.values()), within=40, every=0.3)
    test.none_has_ended()
    for worker in members.values():
        worker.stop()
    records = test.records(topic)
    for ordering, sink in sinks.items():
        evidence = chaos_checks.Evidence(chaos_checks.Policy(ordering, topic, ordering, timeout=5.0), records, sink.requests(), [], [], sink.skew)
        repeats = chaos_checks.check(evidence)
        checks.require(not repeats, f"{ordering}: delivered again after a graceful restart: {dict(repeats)}")
        test.say(f"{ordering}: {len(sink.requests())} requests for {len(produced)} messages, none delivered twice")
