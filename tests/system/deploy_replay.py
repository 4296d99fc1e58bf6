#!/usr/bin/env python3
"""A rolling restart on a real Kafka, second by second: N workers under steady traffic, each in turn stopped, away for a while and
started again, so that a lag builds up in its partitions; then until that has drained.

  scripts/deploy-replay                                four workers, max-rate 1000/s, traffic 800/s, adaptive shares: about 90 s
  scripts/deploy-replay --strategy adaptive static     one after the other, to compare
  scripts/deploy-replay --kill                         kill -9 instead of SIGTERM: duplicates are allowed

Writes into DIR/STRATEGY:
  charts.svg    output rate, partial limit and lag of each worker and all together, over the same seconds
  windows.csv   the same in numbers: label,second,worker,sent,partial_limit,lag; worker * is all together, beside the max-rate; the
                label is the second since 1970, `second` the same since the first one
  summary.json  what is also printed:
    seconds above the limit   of the wall clock in which all workers together made more attempts than the max-rate, as the workers
                              label them (exact), and at the receiver (beyond what a request's way may shift). Must be 0
    use while lag             part of the max-rate that was sent in seconds that ended with messages waiting at a worker that runs
                              (more than a tenth of a second's: fewer are on their way)
    drained                   seconds from the last worker's start until nothing waits any more
    duplicates                messages delivered more than once; must be 0 without --kill

Shares: `adaptive` by demand; `static` max-rate/N for each worker (`instances: N`); `static-by-partition` by the partitions a worker owns.

Exit code 1 when a promise was broken: a second above the limit, a message lost, a duplicate without --kill. The folder named then keeps
configuration, logs and the receiver's record of every request.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import types

import checks
import deploy_course
import kafka_wire
import posthorn_system as system
from deploy_course import Cell

NAME = "orders"
STRATEGIES = ("adaptive", "static", "static-by-partition")
PARTITIONS_EACH = 3
MOST_WORKERS = 12  # a colour for each
SETTLE = 5  # seconds before the first restart
CALM = 3  # seconds without lag: it has drained


class Traffic:
    """Messages at a steady rate, each with a key of its own, until `stop`: a thread writes what is due into a kcat that stays."""

    TICK = 0.05
    BYTES = 100
    BLOCK = 1024  # what kcat reads at once: less than that would wait for more

    def __init__(self, test, topic, rate):
        self.rate, self.ended = rate, threading.Event()
        self.log = open(test.folder / "traffic.log", "wb")
        self.process = subprocess.Popen(
            ["kcat", "-P", "-q", "-b", test.broker.bootstrap, "-t", topic, "-K", "\t", "-X", "acks=all", "-X", "enable.idempotence=true",
             "-X", "partitioner=murmur2_random", "-X", "linger.ms=20"],
            stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, preexec_fn=system.die_with_parent)
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    @classmethod
    def lines(cls, first, end):
        """Messages `first` to `end`, without it; the last one fills the block."""
        lines = [f"key-{number}\t{json.dumps({'number': number})}".ljust(cls.BYTES) for number in range(first, end)]
        size = sum(map(len, lines)) + len(lines)
        return ("\n".join(lines) + " " * (-size % cls.BLOCK) + "\n").encode()

    def write(self):
        begun, written = time.monotonic(), 0
        try:
            while not self.ended.wait(self.TICK):
                due = int((time.monotonic() - begun) * self.rate)
                if due > written:
                    self.process.stdin.write(self.lines(written, due))
                    self.process.stdin.flush()
                    written = due
            self.process.stdin.close()
        except OSError:  # kcat has ended, which is found out below
            pass

    def check(self):
        checks.require(self.process.poll() is None, f"kcat ended: {pathlib.Path(self.log.name).read_text()[-500:]}")

    def stop(self):
        """Returns when Kafka has all of it."""
        self.check()
        self.ended.set()
        self.writer.join(10)
        checks.require(self.process.wait(30) == 0, f"kcat failed: {pathlib.Path(self.log.name).read_text()[-500:]}")
        self.log.close()


class Sampler(threading.Thread):
    """At the end of each second asks every worker for its share and how far its partitions are, and Kafka where these end."""

    PHASE = 0.95

    def __init__(self, test, topic, members):
        super().__init__(daemon=True)
        self.test, self.topic, self.members = test, topic, members
        self.lags, self.ends, self.samples, self.ended = deploy_course.Lags(), {}, {}, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait((self.PHASE - time.time()) % 1.0):
            label = int(time.time())
            self.samples[label] = self.sample()

    def sample(self):
        cells = {}
        for name, worker in list(self.members.items()):
            try:
                page = json.loads(worker.get(f"/subscriptions?name={NAME}", timeout=0.4))["subscriptions"][0]
            except (OSError, ValueError, checks.Failed):
                continue
            partitions = page["lag"]["partitions"]
            self.lags.take(name, partitions)
            cells[name] = Cell(share=page["partial_limit"], running=bool(partitions))
        try:
            self.ends = kafka_wire.end_offsets(self.test.broker.bootstrap, self.topic)
        except OSError:  # those of the second before do
            pass
        for name, lag in self.lags.of(self.ends).items():
            cells.setdefault(name, Cell()).lag = lag
        return cells

    def calm(self, much):
        """Whether the last seconds ended without much lag."""
        last = [self.samples[label] for label in sorted(self.samples)[-CALM:]]
        return len(last) == CALM and all(sum(cell.lag for cell in cells.values()) <= much for cells in last)


class Replay:
    """One run with one strategy. Threads: the caller's, the sampler, the traffic, and those of the test."""

    def __init__(self, options, strategy):
        self.options, self.strategy = options, strategy
        self.names = [f"worker-{number}" for number in range(options.workers)]
        self.folder = options.out / strategy
        self.away, self.summary = [], None

    @property
    def limit_seconds(self):
        return int(180 + self.options.workers * (self.options.away + self.options.between + 30) + self.options.patience)

    def start_worker(self, name):
        # It keeps its partitions while it is away, as a restarted worker does that is back within its session.
        worker = self.test.worker(name, membership="static", kafka__session__timeout__ms=int((self.options.away + 20) * 1000))
        system.eventually(f"{name} runs", lambda: "worker started" in worker.output(), within=30)
        self.members[name] = worker
        return worker

    def restart(self, name):
        worker = self.members.pop(name)  # from here on it has nothing to be asked for
        worker.read_labels(NAME)
        began = time.time()
        if self.options.kill:
            worker.kill()
        else:
            worker.stop()
        time.sleep(max(0.0, began + self.options.away - time.time()))
        worker = self.start_worker(name)
        self.away.append((name, began, worker.started_at))
        worker.await_ready()
        self.test.say(f"{name} was away for {worker.started_at - began:.1f} s")

    def run(self, test):
        options = self.options
        self.test, self.members = test, {}
        test.say(f"{self.strategy}: Kafka runs, {options.workers} workers start")
        topic = test.topic(NAME, partitions=PARTITIONS_EACH * options.workers)
        sink = test.sink()
        test.deployment(shares="adaptive" if self.strategy == "adaptive" else "static")
        rate_set = test.subscriptions({"name": NAME, "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{options.max_rate}/s",
                                       "max_in_flight": 256}, instances=options.workers if self.strategy == "static" else None)
        test.rates.set(rate_set, options.max_rate)
        test.watch_labels(NAME)
        for name in self.names:
            self.start_worker(name)
        system.eventually("every worker has partitions", lambda: all(
            worker.is_ready() and worker.metric("posthorn_group_partitions_owned") == PARTITIONS_EACH for worker in self.members.values()),
            within=60)
        test.say("all are ready, traffic begins")

        traffic = Traffic(test, topic, options.traffic)
        sampler = Sampler(test, topic, self.members)
        time.sleep(SETTLE)
        for name in self.names:
            traffic.check()
            self.restart(name)
            time.sleep(options.between)
        much = deploy_course.Course(self.names, options.max_rate, 0, [], []).much
        try:
            system.eventually("the lag has drained", lambda: sampler.calm(much), within=options.patience)
        except system.TimedOut as waited:
            test.say(str(waited))
        traffic.stop()
        sampler.ended.set()
        sampler.join(10)
        produced = test.produced(topic)
        try:
            system.eventually("everything is delivered", lambda: produced <= sink.delivered(), within=60, every=0.3)
        except system.TimedOut as waited:
            test.say(str(waited))
        self.conclude(sink, sampler, produced)

    def attempts(self):
        """worker -> label -> attempts, of all processes that had the name."""
        attempts = {name: {} for name in self.names}
        for worker in self.test.workers:
            for label, used in worker.counted.get(NAME, {}).items():
                attempts[worker.instance][label] = attempts[worker.instance].get(label, 0) + used
        return attempts

    def conclude(self, sink, sampler, produced):
        """Writes what came of it, also when a promise was broken, and then says which."""
        test, options = self.test, self.options
        labels, requests = test.labels(NAME), sink.requests()
        delivered = [request.message for request in requests if request.ok]
        course = deploy_course.course_of(self.names, options.max_rate, self.attempts(), sampler.samples, self.away)
        per_second = checks.per_second(requests)
        self.summary = {
            "strategy": self.strategy, "workers": options.workers, "max_rate": options.max_rate, "traffic": options.traffic,
            "stopped_by": "SIGKILL" if options.kill else "SIGTERM", "away": options.away, "between": options.between,
            **deploy_course.summarise(course),
            "seconds_above_total": len(checks.above(test.rates, labels)),
            "seconds_above_at_the_receiver": len(checks.above_at_sink(test.rates, per_second, options.workers, sink.skew)),
            "produced": len(produced), "delivered": len(set(delivered)), "lost": len(produced - set(delivered)),
            "duplicates": len(delivered) - len(set(delivered)),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "windows.csv").write_text(deploy_course.to_csv(course))
        (self.folder / "summary.json").write_text(json.dumps(self.summary, indent=1) + "\n")
        (self.folder / "charts.svg").write_text(deploy_course.draw(
            course, f"{options.workers} workers restarted in turn{' by kill -9' if options.kill else ''}: max-rate {options.max_rate}/s, "
                    f"traffic {options.traffic}/s, {self.strategy} shares"))
        gone = [name for name, worker in self.members.items() if not worker.running]
        checks.require(not gone, f"workers that ended by themselves: {', '.join(gone)}")
        checks.never_above(test.rates, labels)
        checks.never_above_at_sink(test.rates, per_second, options.workers, sink.skew)
        above = sum(worker.metric("posthorn_permits_above_limit_total") for worker in self.members.values())
        checks.require(above == 0, f"{above} permits above the limit, say the coordinators")
        checks.everything_finished(produced, requests, test.dead_letters())
        if not options.kill:
            checks.finished_once(requests, test.dead_letters())
        for worker in self.members.values():
            worker.stop()


def table(summaries):
    """A column for each run."""
    def drained(summary):
        seconds = summary["seconds_to_drain_after_the_last_restart"]
        return "not" if seconds is None else f"{seconds} s"

    def use(summary):
        part = summary["use_of_the_total_while_lag"]
        return "no lag" if part is None else f"{part:.1%} of {summary['seconds_with_lag']} s"

    rows = [("", lambda summary: summary["strategy"]), ("drained after the last restart", drained),
            ("seconds above the limit", lambda s: f"{s['seconds_above_total']} of {s['seconds']}"),
            ("the same at the receiver", lambda s: s["seconds_above_at_the_receiver"]),
            ("use of the limit while lag", use), ("most lag", lambda s: s["most_lag"]),
            ("messages produced", lambda s: s["produced"]), ("delivered", lambda s: s["delivered"]), ("duplicates", lambda s: s["duplicates"])]
    cells = [[name, *(str(of(summary)) for summary in summaries)] for name, of in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]) for row in cells)


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="scripts/deploy-replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", nargs="+", choices=STRATEGIES, default=["adaptive"], metavar="STRATEGY",
                        help=f"how shares are dealt ({', '.join(STRATEGIES)}); several: one run each")
    parser.add_argument("--workers", type=int, default=4, help=f"2 to {MOST_WORKERS} (default 4)")
    parser.add_argument("--max-rate", type=int, default=1000, help="attempts per second of all together (default 1000)")
    parser.add_argument("--traffic", type=int, help="messages per second (default: 80 %% of the max-rate)")
    parser.add_argument("--away", type=float, default=6, help="seconds from a worker's stop to its start (default 6)")
    parser.add_argument("--between", type=float, default=4, help="seconds from a worker being ready to the next one's stop (default 4)")
    parser.add_argument("--kill", action="store_true", help="kill -9 instead of SIGTERM")
    parser.add_argument("--patience", type=float, default=120, help="seconds to wait for the lag to drain (default 120)")
    parser.add_argument("--out", type=pathlib.Path, default=system.ROOT / "build" / "deploy-replay", metavar="DIR",
                        help="default build/deploy-replay")
    options = parser.parse_args(words)
    if options.traffic is None:
        options.traffic = options.max_rate * 8 // 10
    if not 2 <= options.workers <= MOST_WORKERS:
        parser.error(f"--workers: 2 to {MOST_WORKERS}")
    if not 0 < options.traffic < options.max_rate:
        parser.error("--traffic: above 0 and below the max-rate, or what gathers would never drain")
    if min(options.away, options.between, options.patience) < 0:
        parser.error("--away, --between, --patience: not below 0")
    return options


def main(words=None):
    options = arguments_of(words)
    replays = [Replay(options, strategy) for strategy in options.strategy]
    codes = [system.run_scenario(types.SimpleNamespace(LIMIT_SECONDS=replay.limit_seconds, run=replay.run),
                                 f"deploy_{replay.strategy.replace('-', '_')}") for replay in replays]
    done = [replay for replay in replays if replay.summary]
    if done:
        print("\n" + table([replay.summary for replay in done]) + "\n")
        for replay in done:
            print(os.path.relpath(replay.folder / "charts.svg"))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
