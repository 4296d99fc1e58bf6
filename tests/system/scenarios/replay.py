"""A subscription is taken back while the fleet delivers: exactly what was asked for comes again; on a stopped fleet too, also by Kafka's own tool."""

import collections
import datetime
import re

import checks
import posthorn_system as system

LIMIT_SECONDS = 160
BATCH = 600
RATE = 400


def command(test, *arguments, code=0):
    return test.command(*arguments, code=code).stdout


def total(output):
    return int(re.search(r"^(\d+) in total", output, re.MULTILINE).group(1))


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def times(sink):
    """How often each message was delivered."""
    return collections.Counter(request.message for request in sink.requests() if request.ok)


def delivered_so_often(test, sink, expected, what):
    def as_expected():
        return times(sink) == expected
    try:
        system.eventually(what, as_expected, within=20)
    except system.TimedOut:
        found = times(sink)
        wrong = {message: (found[message], expected[message]) for message in found | expected if found[message] != expected[message]}
        raise checks.Failed(f"{what}: {len(wrong)} messages came another number of times (found, expected): {sorted(wrong.items())[:8]}") from None
    test.say(what)


def run(test):
    topic = test.topic(partitions=4)
    sink = test.sink()
    test.deployment()
    billing = {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s", "ordering": "key"}
    test.rates.set(test.subscriptions(billing, instances=2), RATE)
    test.watch_labels("billing")
    test.produce(topic, BATCH)
    test.fleet_of(2)
    before = now()
    test.produce(topic, BATCH)
    again = test.produced(topic)
    system.eventually("two batches are delivered", lambda: sink.delivered() == again, within=20)
    behind = now()
    # What is counted before anything is done is what Kafka has.
    system.eventually("that is stored", lambda: sum(test.committed("billing").values()) == 2 * BATCH, within=10)
    expected = collections.Counter(again)

    # Live, with new messages coming, of a time in the past.
    test.produce(topic, 5 * BATCH)
    newest = test.produced(topic)
    output = command(test, "replay", "billing", "--from", before, "--to", behind, "--dry-run")
    checks.require(total(output) == BATCH, f"the dry run counts {total(output)} and not {BATCH}:\n{output}")
    output = command(test, "replay", "billing", "--from", before, "--to", behind)
    test.say(f"replay with --to: {total(output)} again")
    checks.require(total(output) == BATCH, f"{total(output)} again and not {BATCH}:\n{output}")
    checks.require(sink.delivered() != newest, "everything was delivered before the replay: it was not under load")
    # Which messages those are Kafka knows by their time; they are the ones that come twice.
    expected.update(newest - again)
    system.eventually("the second batch came again", lambda: sum(times(sink).values()) >= sum(expected.values()) + BATCH, within=20)
    twice = {message for message, count in times(sink).items() if count == 2}
    checks.require(len(twice) == BATCH and twice <= again, f"{len(twice)} messages came twice and not just the second batch")
    expected.update(twice)
    delivered_so_often(test, sink, expected, "with --to: the second batch came again, everything else once")

    # Live, from an offset of one partition on.
    ends = system.kafka_wire.end_offsets(test.broker.bootstrap, topic)
    output = command(test, "replay", "billing", "--offset", "2:50")
    checks.require(total(output) == ends[2] - 50, f"{total(output)} again and not {ends[2] - 50}:\n{output}")
    expected.update(f"{topic}-2-{offset}" for offset in range(50, ends[2]))
    delivered_so_often(test, sink, expected, "from an offset on: that partition came again, the others did not")
    output = command(test, "replay", "billing", "--offset", f"1:{ends[1]}")
    checks.require(total(output) == 0 and "nothing to do" in output, f"something was done for an offset that is still ahead:\n{output}")
    command(test, "replay", "billing", code=2)
    command(test, "replay", "nobody", "--from", "1h", code=1)
    test.none_has_ended()

    # Without a worker the positions themselves are moved, by the command and by Kafka's tool.
    for worker in test.workers:
        worker.stop()
    output = command(test, "replay", "billing", "--offset", "0:10", "--offset", "3:20", "--to", now())
    checks.require(total(output) == ends[0] - 10 + ends[3] - 20, f"the stopped fleet is taken back by {total(output)}:\n{output}")
    test.broker.run("tools", "kafka-consumer-groups", "--group", f"{test.fleet}.billing", "--topic", f"{topic}:1", "--reset-offsets",
                    "--to-offset", 30, "--execute")
    for partition, offset in ((0, 10), (1, 30), (3, 20)):
        expected.update(f"{topic}-{partition}-{number}" for number in range(offset, ends[partition]))
    test.workers.clear()
    test.fleet_of(2)
    delivered_so_often(test, sink, expected, "after a reset of the stopped fleet: everything from there came again")
    checks.never_above(test.rates, test.labels("billing"))
    for worker in test.workers:
        worker.stop()
