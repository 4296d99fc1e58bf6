"""Two subscriptions on one topic, one endpoint hangs on a large backlog: the other one does not notice, and nothing is lost when it heals."""

import collections
import json
import subprocess
import time

import checks
import posthorn_system as system

LIMIT_SECONDS = 120
BACKLOG = 12_000
SECONDS = 5
PER_SECOND = 100


def trickle(test, topic):
    """Produces at an even pace; returns how many."""
    with subprocess.Popen(["kcat", "-P", "-q", "-b", test.broker.bootstrap, "-t", topic, "-K", "\t", "-X", "acks=all", "-X", "linger.ms=1"],
                          stdin=subprocess.PIPE, text=True) as kcat:
        start = time.monotonic()
        for number in range(SECONDS * PER_SECOND):
            time.sleep(max(0.0, start + number / PER_SECOND - time.monotonic()))
            kcat.stdin.write(f"key-{number}\t{{}}\n")
            kcat.stdin.flush()
        kcat.stdin.close()
        checks.require(kcat.wait(20) == 0, "kcat could not produce")
    return SECONDS * PER_SECOND


def published(test, topic, count):
    """Message id -> when it was appended, by the record's own time."""
    run = subprocess.run(["kcat", "-C", "-q", "-c", str(count), "-J", "-b", test.broker.bootstrap, "-t", topic, "-o", "beginning"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {f"{row['topic']}-{row['partition']}-{row['offset']}": row["ts"] / 1e3 for row in rows}


def answered(sink):
    """Messages for which it did not let the request wait in vain, one for each time."""
    return [request.message for request in sink.requests() if request.ok and request.wait < 2]


def readers(worker, name):
    """State -> partitions, of one subscription."""
    found = [entry for entry in worker.get_json("/subscriptions")["subscriptions"] if entry["name"] == name]
    return collections.Counter(row["reader"] for row in found[0]["lag"]["partitions"])


def run(test):
    topic = test.topic(partitions=2)
    well, hanging = test.sink(name="well"), test.sink("--latency", "60s", name="hanging")
    policy = {"topic": topic, "timeout": "2s", "backoff": {"initial": "500ms", "max": "1s"}}
    audit = {**policy, "name": "audit", "endpoint": well.endpoint}
    billing = {**policy, "name": "billing", "endpoint": hanging.endpoint}
    test.deployment(shards=1)
    test.subscriptions(audit)
    worker, = test.fleet_of(1)
    total = 0

    def measured(what):
        nonlocal total
        before = total
        total += trickle(test, topic)
        system.eventually(f"everything is delivered {what}", lambda: len(well.delivered()) == total, within=20)
        at = published(test, topic, total)
        arrived = {request.message: request.time for request in well.requests() if request.ok}
        trickled = sorted(at, key=at.get)[before:]
        late = sorted(arrived[message] - at[message] for message in trickled)
        test.say(f"{what}: p50 {late[len(late) // 2] * 1e3:.1f} ms, p99 {late[len(late) * 99 // 100] * 1e3:.1f} ms, "
                 f"longest {late[-1] * 1e3:.1f} ms of {len(late)}")

    measured("alone")
    test.produce(topic, BACKLOG)
    total += BACKLOG
    test.subscriptions(audit, billing)
    system.eventually("the backlog is delivered to the one that is well", lambda: len(well.delivered()) == total, within=40)
    system.eventually("the hanging one reads apart", lambda: readers(worker, "billing")["shared"] == 0, within=10)
    measured("beside one that hangs on a backlog")
    checks.require(not answered(hanging), "the hanging endpoint has answered")
    checks.require(readers(worker, "audit") == {"shared": 2}, f"the one that is well reads {readers(worker, 'audit')}")
    apart = worker.metric("posthorn_own_readers", subscription="billing")
    checks.require(apart == 2, f"{apart:.0f} partitions read apart by the metrics, not 2")

    hanging.set(latency_ms=0)
    system.eventually("everything is delivered to the one that hung", lambda: len(set(answered(hanging))) == total, within=40)
    system.eventually("it reads with the others again", lambda: readers(worker, "billing") == {"shared": 2}, within=10)
    total += trickle(test, topic)
    for name, sink in (("audit", well), ("billing", hanging)):
        system.eventually(f"{name} has everything", lambda sink=sink: len(set(answered(sink))) == total, within=20)
        times = collections.Counter(answered(sink))
        twice = [message for message, count in times.items() if count > 1]
        checks.require(not twice, f"{name}: {len(twice)} messages were delivered twice, {twice[:3]}")
    worker.stop()
