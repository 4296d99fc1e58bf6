"""What was given up is listed, shown and redelivered with its webhook-id, under the max-rate."""

import json
import subprocess

import checks
import posthorn_system as system

LIMIT_SECONDS = 90
MESSAGES = 60
RATE = 30


def command(test, *arguments, code=0):
    return test.command("dead-letters", *arguments, code=code).stdout


def objects(test, *arguments):
    return [json.loads(line) for line in command(test, *arguments, "--json").splitlines()]


def message(letter):
    return f"{letter['topic']}-{letter['partition']}-{letter['offset']}"


def run(test):
    topic = test.topic(partitions=3)
    sink = test.sink("--status", "422")
    test.deployment()
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s"},
                                      {"name": "audit", "topic": topic, "endpoint": sink.endpoint, "ttl": "10s", "paused": True}, instances=2), RATE)
    test.watch_labels("billing")
    test.fleet_of(2)
    test.produce(topic, MESSAGES)
    produced = test.produced(topic)
    system.eventually("all are dead letters", lambda: len(test.dead_letters()) == MESSAGES, within=20, every=0.5)
    # Somebody else's record, and a damaged one.
    for value, headers in (("hello", []), ("damaged", ["-H", "posthorn-reason=expired", "-H", "posthorn-offset=x"])):
        subprocess.run(["kcat", "-P", "-q", "-b", test.broker.bootstrap, "-t", f"{test.fleet}.dead-letters", "-p", "0", *headers], input=value,
                       text=True, check=True, timeout=30)

    letters = objects(test, "list")
    strange = [letter for letter in letters if "problem" in letter]
    checks.require(len(letters) == MESSAGES + 2 and len(strange) == 2, f"{len(letters)} listed, {len(strange)} of them strange")
    mine = objects(test, "list", "--subscription", "billing", "--reason", "rejected", "--since", "10min")
    checks.require({message(letter) for letter in mine} == produced, "the list is not what was given up")
    checks.require(all(letter["last_status"] == 422 and letter["attempts"] == 1 for letter in mine), "status or attempts are wrong")
    for none in (["--subscription", "audit"], ["--reason", "expired"], ["--until", "1h"]):
        checks.require(objects(test, "list", *none) == [], f"{none} listed something")
    one = mine[7]
    shown = objects(test, "show", "--offset", one["at"])
    checks.require(len(shown) == 1 and message(shown[0]) == message(one) and "number" in json.loads(shown[0]["value"]), f"shown: {shown}")
    checks.require(message(one).split("-")[-1] in command(test, "show", "--offset", one["at"]), "the text does not name the message")
    command(test, "list", "--reason", "bored", code=2)
    command(test, "redeliver", code=2)
    test.say("listed and shown")

    sink.set(status=200)
    output = command(test, "redeliver", "--subscription", "billing", "--dry-run")
    checks.require(f"{MESSAGES} to redeliver" in output, output)
    checks.require(not sink.delivered(), "a dry run delivered something")
    command(test, "redeliver", "--offset", one["at"])
    system.eventually("the one is delivered", lambda: sink.delivered() == {message(one)}, within=20)
    output = command(test, "redeliver", "--subscription", "billing")
    checks.require(f"{MESSAGES} redelivered; 1 of them for at least the second time" in output, output)
    system.eventually("all are delivered, with the webhook-id of their message", lambda: sink.delivered() == produced, within=20)
    again = [request for request in sink.requests() if request.ok]
    checks.require(all(request.attempt == 1 for request in again), "attempts did not begin anew")
    checks.never_above(test.rates, test.labels("billing"))
    checks.never_above_at_sink(test.rates, sink.per_second(), workers=2, skew=sink.skew)
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
