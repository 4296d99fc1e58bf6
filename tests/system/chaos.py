#!/usr/bin/env python3
"""Rounds of deliveries under faults drawn at random, on a real Kafka of three brokers; each round is judged by chaos_checks.py.

  scripts/chaos --rounds 10            ten rounds, one line each; the seed is printed
  scripts/chaos --rounds 1 --seed S    the round of that seed again: the same subscriptions and faults at the same times

Exit code 1 when a promise was broken; the folder of that round keeps its configuration, logs and the sinks' records.
"""

import argparse
import collections
import contextlib
import io
import os
import random
import subprocess
import sys
import threading
import time
import types

import chaos_checks
import checks
import posthorn_system as system
from chaos_checks import Fault, Policy

BROKERS = 3
ROUNDS_PER_KAFKA = 10  # what earlier rounds leave behind makes every restart of a broker slower
WORKERS = 3
SESSION_TIMEOUT = 6.0  # the least a broker takes by default
IN_FLIGHT = 16
TIMEOUT = 1.5
FLEET_FAULTS = ("kill", "kill", "term", "term", "pause", "churn")
ENDPOINT_FAULTS = {
    "hang": {"latency_ms": 30_000},
    "slow": {"latency_ms": [50, 500]},
    "reset": {"reset": 0.5, "fail": 0.2},
    "overload": {"status": 503, "retry_after": 1},
    "poison": {"poison": 0.15, "fail_status": 500},
    "flaky": {"fail": 0.4, "fail_status": 500},
}
CALM = {"status": 200, "fail": 0, "poison": 0, "fail_status": 503, "latency_ms": 0, "retry_after": None, "reset": 0}


class Plan:
    """What the seed decides: the subscriptions, and per track a list of (seconds to wait, what, whom, for how many seconds)."""

    def __init__(self, seed, seconds):
        draw = random.Random(seed)
        self.static = draw.random() < 0.5
        orders = ["key", "partition", "none"]
        draw.shuffle(orders)
        self.subscriptions = []
        for name, topic, ordering in zip(("billing", "audit", "stock"), ("orders", "orders", "items"), orders):
            self.subscriptions.append(types.SimpleNamespace(
                name=name, topic=topic, ordering=ordering, rate=draw.choice((60, 100, 250)), ttl=draw.choice((4, 8, 600)),
                ttl_from=draw.choice(("read", "read", "published"))))
        self.fleet, self.endpoints, self.kafka = [], [], []
        spent = 0.0
        while spent < seconds:
            kind = draw.choice(FLEET_FAULTS)
            pause = draw.uniform(0.3, 2.0)
            length = {"pause": SESSION_TIMEOUT + draw.uniform(0.5, 2.5), "churn": draw.uniform(1.0, 3.0)}.get(kind, draw.uniform(0, 2.0))
            self.fleet.append((pause, kind, draw.randrange(WORKERS), length))
            spent += pause + length
        spent = 0.0
        while spent < seconds:
            kind = draw.choice(("refuse", *ENDPOINT_FAULTS))
            pause, length = draw.uniform(0, 1.0), draw.uniform(1.0, 4.0)
            self.endpoints.append((pause, kind, draw.choice(self.subscriptions).name, length))
            spent += pause + length
        if draw.random() < 0.75:
            self.kafka.append((draw.uniform(0, seconds / 2), draw.choice(("restart", "down")), draw.randint(1, BROKERS), draw.uniform(2, 6)))
        # With a small bound what fails while the rest gets through is parked.
        self.max_unfinished = draw.choice((10_000, 10))
        if self.max_unfinished == 10:
            for subscription in self.subscriptions:
                if subscription.ordering != "partition":
                    self.endpoints.insert(draw.randint(0, 1), (draw.uniform(0, 1), "poison", subscription.name, draw.uniform(3, 6)))
        self.shares = draw.choice(("static", "adaptive"))

    def __str__(self):
        subscriptions = ", ".join(f"{s.name}: {s.ordering} {s.rate}/s ttl {s.ttl}s {s.ttl_from}" for s in self.subscriptions)
        return f"{self.shares}, {'slots' if self.static else 'no slots'}; at most {self.max_unfinished} unfinished; {subscriptions}"


class Round:
    """One round. Threads: one per track, and the caller's, which produces."""

    def __init__(self, seed, seconds):
        self.seed, self.seconds = seed, seconds
        self.plan = Plan(seed, seconds)
        self.faults, self.done, self.failures = [], collections.Counter(), []
        self.summary = ""

    # ------------------------------------------------------------ faults

    def note(self, kind, who, start, end):
        self.faults.append(Fault(kind, str(who), start, end))

    def start_worker(self, name):
        worker = self.test.worker(name, kafka__session__timeout__ms=int(SESSION_TIMEOUT * 1000),
                                  membership="static" if self.plan.static else "dynamic")
        # Before it has taken over its signals SIGTERM just ends it.
        system.eventually(f"{name} runs", lambda: "worker started" in worker.output(), within=30)
        self.members[name] = worker

    def run_fleet(self, kind, who, length):
        name = f"w-{who}"
        worker = self.members[name]
        if kind == "kill":
            at = time.time()
            worker.kill()
            self.note("kill", name, at, time.time())
            time.sleep(length)
            self.start_worker(name)
        elif kind == "term":
            worker.stop()
            time.sleep(length)
            self.start_worker(name)
        elif kind == "pause":
            at = time.time()
            worker.pause()
            time.sleep(length)
            worker.resume()
            self.note("pause", name, at, time.time())
        else:  # one more comes and goes, twice: every partition may move
            for _ in range(2):
                self.start_worker(f"w-{WORKERS}")
                time.sleep(length)
                self.members.pop(f"w-{WORKERS}").stop()

    def run_endpoint(self, kind, who, length):
        sink = self.sinks[who]
        if kind == "refuse":
            at = time.time()
            sink.stop()
            time.sleep(length)
            sink.start()
            self.note("away", who, at, time.time())
        else:
            sink.set(**ENDPOINT_FAULTS[kind])
            time.sleep(length)
            sink.set(**CALM)

    def run_kafka(self, kind, node, length):
        at = time.time()
        if kind == "down":
            self.test.broker.kill(node)
            time.sleep(length)
        self.test.broker.restart(node=node)
        self.note("kafka", node, at, time.time())

    def track(self, run, steps):
        """Runs the steps beside the others; returns an event for their end. The thread itself stays until the round is over: a
        process dies with the thread that started it."""
        through = threading.Event()

        def work():
            steps_until_over()
            through.set()
            self.release.wait()

        def steps_until_over():
            try:
                for pause, kind, who, length in steps:
                    if self.over.wait(pause):
                        return
                    self.test.say(f"{kind} {who} for {length:.1f} s")
                    self.done[kind] += 1
                    run(kind, who, length)
            except Exception as failure:  # noqa: BLE001  (said by the round)
                self.failures.append(failure)
        threading.Thread(target=work, daemon=True).start()
        return through

    # ------------------------------------------------------------ the course of events

    def run(self, test):
        self.test, self.members, self.over, self.release = test, {}, threading.Event(), threading.Event()
        try:
            self.course()
        finally:
            self.release.set()

    def course(self):
        test = self.test
        test.say(f"seed {self.seed}: {self.plan}")
        topics = {name: test.topic(name, partitions=6) for name in ("orders", "items")}
        self.sinks = {wanted.name: test.sink(name=wanted.name) for wanted in self.plan.subscriptions}
        policies = [Policy(wanted.name, topics[wanted.topic], wanted.ordering, wanted.ttl, wanted.ttl_from, TIMEOUT)
                    for wanted in self.plan.subscriptions]
        test.deployment(max_unfinished=self.plan.max_unfinished, retry_topic={"replication": BROKERS},
                        shares=self.plan.shares, **({"control": {"replication": BROKERS}} if self.plan.shares == "adaptive" else {}))
        test.subscriptions(*[{
            "name": wanted.name, "topic": topics[wanted.topic], "endpoint": self.sinks[wanted.name].endpoint, "max_rate": f"{wanted.rate}/s",
            "ordering": wanted.ordering, "ttl": f"{wanted.ttl}s", "ttl_from": wanted.ttl_from, "timeout": f"{int(TIMEOUT * 1000)}ms",
            "max_in_flight": IN_FLIGHT, "retry_after_max": "3s", "backoff": {"initial": "100ms", "max": "1s"}}
            for wanted in self.plan.subscriptions], instances=WORKERS + 1 if self.plan.static else None)
        for topic in topics.values():
            test.produce(topic, 150, keys=20)
        test.watch_labels(*[policy.name for policy in policies])
        for number in range(WORKERS):
            self.start_worker(f"w-{number}")
        # Where the TTL counts from the publication all of it may have expired meanwhile.
        system.eventually("deliveries run", lambda: all(
            sink.delivered() or any(letter.subscription == name for letter in test.dead_letters()) for name, sink in self.sinks.items()),
            within=30)

        tracks = [self.track(self.run_fleet, self.plan.fleet), self.track(self.run_endpoint, self.plan.endpoints),
                  self.track(self.run_kafka, self.plan.kafka)]
        until = time.monotonic() + self.seconds
        while time.monotonic() < until and not self.failures:
            for topic in topics.values():
                test.produce(topic, 15, keys=20)
            time.sleep(0.7)
        self.over.set()
        for through in tracks:
            checks.require(through.wait(60), "a track of faults has not ended")
        if self.failures:
            raise checks.Failed(f"a fault could not be brought about: {self.failures[0]}") from self.failures[0]
        test.say("calm again")
        self.judge(policies)

    def stored(self, policy):
        """How many messages of its own topic the subscription has stored as finished."""
        return sum(offset for (topic, _), offset in self.test.committed(policy.name).items() if topic == policy.topic)

    def parked(self):
        """subscription -> (message, when) of all that was parked."""
        found = collections.defaultdict(list)
        for entry in self.test.content(f"{self.test.fleet}.retry"):
            flat = entry.get("headers", [])
            headers = dict(zip(flat[::2], flat[1::2]))
            message = "-".join(headers[f"posthorn-{part}"] for part in ("topic", "partition", "offset"))
            found[headers["posthorn-subscription"]].append((message, entry["ts"] / 1000))
        return found

    def keep_status(self):
        """What each worker says of itself, beside its log: by then nothing should be left to do."""
        for worker in self.members.values():
            with contextlib.suppress(OSError):
                status = worker.get("/subscriptions") + "\n" + worker.get("/metrics")
                worker.log.with_suffix(".status").write_text(status)

    def judge(self, policies):
        test = self.test
        records = {policy.topic: test.records(policy.topic) for policy in policies}
        produced = {topic: {chaos_checks.Evidence.id(record) for record in found} for topic, found in records.items()}

        def open_messages(policy):
            letters = {letter.message for letter in test.dead_letters() if letter.subscription == policy.name}
            return produced[policy.topic] - self.sinks[policy.name].delivered() - letters

        try:
            system.eventually("everything is finished", lambda: not any(open_messages(policy) for policy in policies), within=45, every=0.7)
        except system.TimedOut:  # what is missing is said by the checker
            self.keep_status()
        for policy in policies:
            total = len(records[policy.topic])
            with contextlib.suppress(system.TimedOut):
                system.eventually(f"{policy.name}'s offsets reach the end", lambda: self.stored(policy) == total, within=15, every=0.5)
        gone = [name for name, worker in self.members.items() if not worker.running]
        checks.require(not gone, f"workers that ended by themselves: {', '.join(gone)}")
        labels = {policy.name: test.labels(policy.name) for policy in policies}
        for worker in self.members.values():
            worker.stop()
        letters, parked, repeats = test.dead_letters(), self.parked(), collections.Counter()
        finishes = 0
        for policy, wanted in zip(policies, self.plan.subscriptions):
            sink = self.sinks[policy.name]
            evidence = chaos_checks.Evidence(policy, records[policy.topic], sink.requests(), letters, self.faults, sink.skew,
                                              parked[policy.name])
            repeats.update(chaos_checks.check(evidence))
            finishes += sum(request.ok for request in evidence.requests) + len(evidence.letters)
            rates = checks.Rates()
            rates.set(0, wanted.rate)
            checks.never_above(rates, labels[policy.name])
            checks.never_above_at_sink(rates, chaos_checks.seconds_beside_pauses(evidence, IN_FLIGHT), WORKERS + 1, skew=sink.skew)
            stored = self.stored(policy)
            checks.require(stored == len(evidence.records), f"{policy.name}: {stored} of {len(evidence.records)} are stored as finished")
        self.summary = (f"{finishes} finishes, {len(letters)} dead letters, {sum(map(len, parked.values()))} parked, repeats: "
                        + (", ".join(f"{count} {reason}" for reason, count in sorted(repeats.items())) or "none")
                        + "; faults: " + ", ".join(f"{count} {kind}" for kind, count in sorted(self.done.items())))
        test.say(self.summary)


def run_rounds(rounds, seed, seconds):
    name = f"chaos-{os.getpid()}"
    kafka = [str(system.KAFKA)]
    os.environ["POSTHORN_KAFKA"] = name
    # A broker that is restarted every few seconds spends most of its time on compiling itself.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    broken = 0
    try:
        for number in range(rounds):
            if number % ROUNDS_PER_KAFKA == 0:
                subprocess.run([*kafka, "stop", "--id", name, "--delete"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                subprocess.run([*kafka, "start", "--id", name, "--port", "0", "--brokers", str(BROKERS)], check=True, stdout=subprocess.DEVNULL)
            one = Round(seed + number, seconds)
            scenario = types.SimpleNamespace(LIMIT_SECONDS=180, run=one.run)
            began, said = time.monotonic(), io.StringIO()
            with contextlib.redirect_stdout(said):
                code = system.run_scenario(scenario, f"chaos_{seed + number}")
            print(f"round {number + 1} seed {seed + number} {time.monotonic() - began:.0f} s: "
                  + (f"kept; {one.summary}" if code == 0 else f"BROKEN\n{said.getvalue()}"), flush=True)
            broken += code != 0
            if code:
                subprocess.run([*kafka, "start", "--id", name], check=True, stdout=subprocess.DEVNULL)
    finally:
        subprocess.run([*kafka, "stop", "--id", name, "--delete"], check=False, stdout=subprocess.DEVNULL)
    print(f"{rounds} rounds, {broken} broken")
    return 1 if broken else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; each further one adds 1 (default: drawn)")
    parser.add_argument("--seconds", type=float, default=15, help="how long faults come in a round (default 15)")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    return run_rounds(arguments.rounds, seed, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
