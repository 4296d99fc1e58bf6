"""A static worker is back unnoticed, leaves for good at once with SIGUSR1, and one fenced by a namesake gives all up and stays."""

import signal

import checks
import posthorn_system as system

LIMIT_SECONDS = 90
PARTITIONS = 6


def owned(worker):
    return worker.metric("posthorn_group_partitions_owned")


def run(test):
    topic = test.topic(partitions=PARTITIONS)
    sink = test.sink()
    test.deployment()
    test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint})
    first, second = test.fleet_of(2)
    # Not by half each: the group balances these and those of the retry topic together.
    system.eventually("the partitions are shared out", lambda: owned(first) + owned(second) == PARTITIONS and owned(second) > 0, within=30)
    part = owned(second)

    rebalances = first.metric("posthorn_group_rebalances_total")
    second.stop()
    test.workers.remove(second)
    back = test.worker("orders-1").await_ready()
    system.eventually("it has its partitions again", lambda: owned(back) == part, within=5)
    checks.require(first.metric("posthorn_group_rebalances_total") == rebalances, "the other worker was rebalanced by a quick restart")

    namesake = test.worker("orders-1", called="namesake")
    system.eventually("the older one says it is fenced", lambda: "another process has taken" in back.output(), within=15)
    namesake.await_ready()
    system.eventually("the newer one owns the partitions", lambda: owned(namesake) == part, within=15)
    checks.require(not ready(back), "a fenced worker calls itself ready")
    checks.require(owned(back) == 0, "a fenced worker owns partitions")
    test.produce(topic, 300)
    system.eventually("all is delivered, once", lambda: len(sink.delivered()) == 300, within=15)
    checks.require(len(sink.requests()) == 300, f"{len(sink.requests())} requests for 300 messages")
    test.none_has_ended()
    back.stop()
    test.workers.remove(back)
    checks.require(owned(namesake) == part, "the end of a fenced worker has cost the other one its place")

    left_at = system.time.monotonic()
    namesake.signal(signal.SIGUSR1)
    system.eventually("the rest owns everything", lambda: owned(first) == PARTITIONS, within=20, every=0.05)
    took = system.time.monotonic() - left_at
    test.say(f"{took:.1f} s after SIGUSR1 the rest owns everything")
    code = namesake.wait(10)
    test.workers.remove(namesake)
    checks.require(code == 0, f"SIGUSR1 ended a worker with {code}")
    checks.require(took < 4, f"leaving for good took {took:.1f} s, as long as a session")


def ready(worker):
    try:
        return worker.is_ready()
    except OSError:
        return False
