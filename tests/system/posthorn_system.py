"""A system test: its parts (parts.py) with their configuration, messages and logs.

A scenario is `scenarios/NAME.py` with `LIMIT_SECONDS` and `run(test)`; run.py runs it.

Environment: POSTHORN_BINARY (default build/release/posthorn), POSTHORN_KAFKA (id of a Kafka of scripts/kafka to share; unset:
the test starts its own), POSTHORN_LOGS (where the folders of failed runs stay, default build/system-logs).
"""

import collections
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

import checks
import kafka_wire
from parts import (BINARY, KAFKA, LOGS, PLANTED, PLANTED_FORMS, ROOT, Broker, Sink, TimedOut, Worker, await_label,  # noqa: F401
                   die_with_parent, eventually, next_label, tells_no_secret, until_phase)  # scenarios call them by system.NAME

DeadLetter = collections.namedtuple("DeadLetter", "message reason subscription attempts headers time")
Record = collections.namedtuple("Record", "topic partition offset time key")


class Test:
    """What a scenario works with. Threads: one, but for the label watch, which only reads."""

    def __init__(self, name, own_broker=False):
        self._begin(name, f"{name.replace('_', '-')}-{os.getpid()}", LOGS)
        self.broker = Broker(self, own_broker)

    def _begin(self, name, run_id, logs, whose=""):
        self.name, self.run_id, self.fleet, self.whose = name, run_id, run_id, whose
        self.folder = logs / run_id
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.processes, self.workers, self.probes, self.parts = [], [], [], []
        self.at_end = []  # called when the test has ended, whatever came of it
        self.rates = checks.Rates()
        self.watching, self.watch_stop = None, threading.Event()
        self.started = time.monotonic()

    def part(self, name):
        """A test in this one, on the same Kafka, with a fleet, a folder and counts of its own: for what runs side by side. It ends with
        this one, its processes with the thread that started them."""
        part = Test.__new__(Test)
        part._begin(self.name, f"{self.run_id}-{name}", self.folder, f"{self.whose}{name}: ")
        part.broker, part.started = self.broker, self.started
        self.parts.append(part)
        return part

    def family(self):
        """All parts, those of parts too, and this test."""
        return [*(member for part in self.parts for member in part.family()), self]

    def side_by_side(self, run, names):
        """`run(part, name)` for each name, in a thread and a part of its own; the first failure is raised at once."""
        done = queue.Queue()

        def run_part(name):
            try:
                run(self.part(name), name)
                done.put(None)
            except BaseException as error:  # whatever it is, it is raised where the scenario runs
                done.put(error)

        for name in names:
            threading.Thread(target=run_part, args=(name,), daemon=True).start()
        for _ in names:
            error = done.get()
            if error is not None:
                raise error

    def say(self, text):
        print(f"[{time.monotonic() - self.started:6.1f}s] {self.whose}{text}", flush=True)

    # -------------------------------------------------------- topics and messages

    def topic(self, name="orders", partitions=12):
        full = f"{self.run_id}.{name}"
        self.broker.create_topic(full, partitions)
        return full

    def produce(self, topic, count, size=100, keys=997):
        """Appends `count` messages with so many keys, each once, and returns when Kafka has them."""
        def end():
            return eventually(f"{topic} tells its end", lambda: kafka_wire.end_offsets(self.broker.bootstrap, topic), 30)
        before = sum(end().values())
        number = before
        lines = []
        for number in range(before, before + count):
            body = json.dumps({"number": number})
            lines.append(f"key-{number % keys}\t{body}{' ' * max(0, size - len(body))}\n")
        run = subprocess.run(["kcat", "-P", "-q", "-b", self.broker.bootstrap, "-t", topic, "-K", "\t", "-X", "acks=all",
                              "-X", "enable.idempotence=true", "-X", "partitioner=murmur2_random", "-X", "linger.ms=20"],
                             input="".join(lines), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        checks.require(run.returncode == 0, f"kcat could not produce: {run.stderr[-500:]}")
        after = sum(end().values())
        checks.require(after == before + count, f"produced {count}, but the topic grew by {after - before}")

    def produced(self, topic):
        """The id of every message in the topic, as the sink sees it: `<topic>-<partition>-<offset>`."""
        return {f"{topic}-{partition}-{offset}" for partition, end in kafka_wire.end_offsets(self.broker.bootstrap, topic).items()
                for offset in range(end)}

    def content(self, topic):
        """What kcat says of each message that is in the topic now."""
        count = sum(kafka_wire.end_offsets(self.broker.bootstrap, topic).values())
        if not count:
            return []
        # -c, not -e: while messages are being written the end is never reached.
        run = subprocess.run(["kcat", "-C", "-q", "-c", str(count), "-J", "-b", self.broker.bootstrap, "-t", topic, "-o", "beginning"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        checks.require(run.returncode == 0, f"kcat could not read {topic}: {run.stderr[-500:]}")
        return [json.loads(line) for line in run.stdout.splitlines()]

    def records(self, topic):
        """Every message of the topic, with its key and Kafka's timestamp."""
        return [Record(topic, entry["partition"], entry["offset"], entry["ts"] / 1000, entry.get("key")) for entry in self.content(topic)]

    def dead_letters(self):
        """Everything in the fleet's dead-letter topic."""
        letters = []
        for entry in self.content(f"{self.fleet}.dead-letters"):
            flat = entry.get("headers", [])
            headers = dict(zip(flat[::2], flat[1::2]))
            message = "-".join(headers[f"posthorn-{part}"] for part in ("topic", "partition", "offset"))
            letters.append(DeadLetter(message, headers["posthorn-reason"], headers["posthorn-subscription"],
                                      int(headers["posthorn-attempts"]), headers, entry["ts"] / 1000))
        return letters

    def committed(self, subscription):
        """(topic, partition) -> committed offset of the subscription's offset group."""
        return kafka_wire.committed_offsets(self.broker.bootstrap, f"{self.fleet}.{subscription}")

    # -------------------------------------------------------- configuration

    def deployment(self, **more):
        """Writes posthorn.yaml (JSON is YAML). Shares are static unless a scenario is about leases: most count on who has how much."""
        document = {"fleet": self.fleet, "admin": "127.0.0.1:0",
                    "kafka": {"bootstrap.servers": self.broker.bootstrap, "sasl.password": "planted-kafka-password"},
                    "subscriptions": {"file": str(self.folder / "subscriptions.yaml")}, "shutdown_timeout": "20s", "shares": "static",
                    "log": {"level": "info", "format": "json"}, **more}
        (self.folder / "posthorn.yaml").write_text(json.dumps(document, indent=1) + "\n")

    def subscriptions(self, *subscriptions, instances=None):
        """Swaps in a whole new subscriptions file, by rename; returns the moment it was there."""
        document = {"subscriptions": list(subscriptions)}
        if instances is not None:
            document["instances"] = instances
        return self.write_subscriptions(json.dumps(document, indent=1) + "\n")

    def write_subscriptions(self, text):
        beside = self.folder / "subscriptions.yaml.next"
        beside.write_text(text)
        beside.rename(self.folder / "subscriptions.yaml")
        return time.time()

    # -------------------------------------------------------- processes

    def sink(self, *options, name="sink"):
        return Sink(self, name, options)

    def worker(self, instance, called=None, **settings):
        """Starts a worker; does not wait for it. `called`: for its log, when another one has the same instance name."""
        worker = Worker(self, instance, {key.replace("__", "."): value for key, value in settings.items()}, called)
        self.processes.append(worker)
        self.workers.append(worker)
        return worker

    def command(self, *arguments, code=0, text="", env=None):
        """Runs `posthorn ARGUMENTS` with the fleet's configuration; what it has said, once it ended with `code`."""
        name = " ".join(map(str, arguments))
        run = subprocess.run([str(BINARY), *map(str, arguments), "--config", str(self.folder / "posthorn.yaml"), "--set",
                              "instance=operator"], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                             env={**os.environ, **(env or {})})
        tells_no_secret(f"posthorn {name}", run.stdout + run.stderr)
        checks.require(run.returncode == code, f"posthorn {name} ended with {run.returncode}, not {code}:\n{run.stdout}{run.stderr}")
        return run

    def fleet_of(self, count, prefix="orders", **settings):
        """Starts `count` workers and waits until each is ready."""
        workers = [self.worker(f"{prefix}-{number}", **settings) for number in range(count)]
        for worker in workers:
            worker.await_ready()
        return workers

    def await_owned(self, partitions, within=40):
        """Until the workers that run own so many partitions, each of them some."""
        def owned():
            counts = [worker.metric("posthorn_group_partitions_owned") for worker in self.workers if worker.running]
            return sum(counts) == partitions and min(counts) > 0
        eventually(f"{partitions} partitions have an owner, every worker some", owned, within)

    def nothing_secret_was_told(self):
        for test in self.family():
            for process in test.processes:
                tells_no_secret(f"the log of {test.whose}{process.name}", process.output())

    def none_has_ended(self):
        gone = [f"{worker.instance} ({worker.child.returncode})" for worker in self.workers if not worker.running]
        checks.require(not gone, f"workers that ended by themselves: {', '.join(gone)}")

    # -------------------------------------------------------- attempts by label

    def watch_labels(self, *limits):
        """From now on reads every worker's counts per label a few times a second, so that little is missing of a killed one."""
        def watch():
            while not self.watch_stop.wait(0.25):
                for worker in list(self.workers):
                    if worker._address is None:
                        with contextlib.suppress(OSError, checks.Failed):
                            worker.address
                    else:
                        for limit in limits:
                            worker.read_labels(limit)
        self.watching = threading.Thread(target=watch, daemon=True)
        self.watching.start()

    def labels(self, limit):
        """Label -> attempts of all workers that ever ran, as they label them. Exact for those that answer; of one that ended,
        what it had told before."""
        total = collections.Counter()
        for worker in list(self.workers):
            worker.read_labels(limit)
            total.update(worker.counted.get(limit, {}))
        return dict(total)

    # -------------------------------------------------------- the end

    def close(self, failed):
        for test in self.family():
            test._end()
        with contextlib.suppress(Exception):
            self.broker.close()
        if failed:
            for test in self.family():
                test._print_ends()
            print(f"everything is kept in {self.folder}", flush=True)
        elif not os.environ.get("POSTHORN_KEEP_LOGS"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self):
        self.watch_stop.set()
        for probe in self.probes:
            probe.ended.set()
            probe.join(5)
        if self.watching:
            self.watching.join(5)
        for process in self.processes:
            process.end()
        for call in self.at_end:
            with contextlib.suppress(Exception):
                call()

    def _print_ends(self):
        for process in {process.log: process for process in self.processes}.values():
            tail = process.output().splitlines()[-12:]
            print(f"--- the end of {self.whose}{process.log.name}:", *tail, sep="\n  ", flush=True)


def run_scenario(scenario, name):
    """Runs it with its deadline; returns the exit code."""
    def too_long(*_):
        raise TimedOut(f"the scenario took more than its {scenario.LIMIT_SECONDS} s")

    def told_to_end(*_):
        raise SystemExit(143)

    if not BINARY.exists():
        print(f"there is no {BINARY}; build it first (scripts/test does)", file=sys.stderr)
        return 2
    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGTERM, told_to_end)
    signal.alarm(scenario.LIMIT_SECONDS)
    test, failed = None, True
    try:
        test = Test(name, getattr(scenario, "OWN_BROKER", False))
        scenario.run(test)
        test.nothing_secret_was_told()
        failed = False
        test.say(f"passed: {name}")
    except checks.Failed as failure:
        print(f"FAILED: {failure}", flush=True)
    finally:
        signal.alarm(0)
        if test:
            test.close(failed)
    return 1 if failed else 0
