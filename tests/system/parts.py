"""What system tests are made of: a real Kafka, `posthorn worker` processes, a `posthorn sink`, and waits for conditions.

Nothing here waits for a fixed time when a condition can be awaited: every wait names what it waits for and has a deadline. All
processes are ended with the test, also when the test itself is killed.
"""

import collections
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import checks
import kafka_wire

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("POSTHORN_BINARY", ROOT / "build" / "release" / "posthorn"))
KAFKA = ROOT / "scripts" / "kafka"
LOGS = pathlib.Path(os.environ.get("POSTHORN_LOGS", ROOT / "build" / "system-logs"))

# What no worker and no command may tell, in its log, its output or an answer: in every deployment, and what scenarios add. Those that
# are fixed words begin with `planted-`, so that they are found in the output of the whole run, too (told_secrets.py).
PLANTED = {"planted-kafka-password"}
# What only a server knows, by its form: compiled regular expressions.
PLANTED_FORMS = set()

# `wait`: seconds the sink waited with its answer; `reset`: the answer ended in the middle of its body.
Request = collections.namedtuple("Request", "message time second attempt status ok subscription headers wait reset")


class TimedOut(checks.Failed):
    """A condition did not come true before its deadline."""


def eventually(what, condition, within, every=0.1):
    """Awaits a true value of `condition()` and returns it; it is asked one last time at the deadline. OSError counts as not yet."""
    deadline = time.monotonic() + within
    while True:
        last = time.monotonic() >= deadline
        try:
            value = condition()
        except OSError as error:
            value, why = None, f" ({error})"
        else:
            why = ""
        if value:
            return value
        if last:
            raise TimedOut(f"not within {within:.0f} s: {what}{why}")
        time.sleep(every)


def until_phase(phase):
    """Returns at that fraction of a wall-clock second, so that a change does not fall on a window's border."""
    time.sleep((phase - time.time()) % 1.0)


def next_label():
    """The first label that has not begun."""
    return int(time.time()) + 1


def await_label(label):
    """Returns once the label is over and what was counted in it can be asked for."""
    time.sleep(max(0.0, label + 1.2 - time.time()))


def free_port():
    """A port below the kernel's ephemeral range: it stays free while its process is away."""
    for _ in range(1000):
        port = random.randint(15000, 19999)
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise OSError("no free port between 15000 and 19999")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def die_with_parent_and_go_first():
    """For the sink, whose clock readings are evidence: before whatever else the machine does, where that is allowed."""
    die_with_parent()
    with contextlib.suppress(OSError):
        os.nice(-10)


def tells_no_secret(where, text):
    checks.tells_no_secret(where, text, PLANTED, PLANTED_FORMS)


def http_answer(url, timeout=2.0):
    """Status and body, whatever the status. Errors: OSError when there is no answer."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read()
    except http.client.HTTPException as error:  # the process ended while it answered
        raise OSError(f"{url}: {error}") from error
    tells_no_secret(url, body.decode())
    return status, body.decode()


def http_get(url, timeout=2.0):
    """The body. Errors: OSError, also for every status that is not 200."""
    status, body = http_answer(url, timeout)
    if status != 200:
        raise OSError(f"{url} answered {status}")
    return body


class Process:
    """A child with its output in a file."""

    def __init__(self, name, command, log, prepare=die_with_parent):
        self.name, self.log = name, pathlib.Path(log)
        self.offset = self.log.stat().st_size if self.log.exists() else 0
        output = open(self.log, "ab")
        try:
            self.child = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=output, preexec_fn=prepare)
        finally:
            output.close()

    @property
    def running(self):
        return self.child.poll() is None

    def output(self):
        """What this process has written so far (the log goes on over restarts)."""
        with open(self.log, "rb") as file:
            file.seek(self.offset)
            return file.read().decode(errors="replace")

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, within):
        try:
            return self.child.wait(within)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{self.name} has not ended within {within} s") from None

    def end(self):
        """Whatever state it is in."""
        if self.running:
            self.child.kill()
        self.child.wait()


class Worker(Process):
    """One `posthorn worker` process, from its start to its end; a restart is another one."""

    def __init__(self, test, instance, settings, called=None):
        self.instance = instance
        self.counted = {}  # limit -> label -> permits used, the most ever read
        self.reading = threading.Lock()
        self.paused = False
        command = [BINARY, "worker", "--config", test.folder / "posthorn.yaml", "--set", f"instance={instance}"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self._address = None
        self.started_at = time.time()
        super().__init__(called or instance, command, test.folder / f"{called or instance}.log")

    def events(self, event=None):
        """The log lines as objects, those of one event only when it is named."""
        found = []
        for line in self.output().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and (event is None or event in entry.get("event", "")):
                    found.append(entry)
        return found

    @property
    def address(self):
        if self._address is None:
            found = self.events("admin listening")
            if not found:
                if not self.running:
                    raise checks.Failed(f"{self.instance} ended with {self.child.returncode}:\n{self.output()[-1500:]}")
                raise OSError(f"{self.instance} has not logged its admin address")
            self._address = found[-1]["address"]
        return self._address

    def get(self, path, timeout=2.0):
        return http_get(f"http://{self.address}{path}", timeout)

    def get_json(self, path):
        return json.loads(self.get(path))

    def readiness(self):
        """Status and body of /readyz."""
        return http_answer(f"http://{self.address}/readyz")

    def is_ready(self):
        return self.get("/readyz") is not None

    def await_ready(self, within=30):
        eventually(f"{self.instance} is ready", self.is_ready, within)
        return self

    def metrics(self, name):
        """The samples of a metric: frozenset of (label, value) -> number."""
        samples = {}
        for line in self.get("/metrics").splitlines():
            if not line.startswith(name) or line[len(name)] not in "{ ":
                continue
            labels, _, value = line[len(name):].rpartition(" ")
            pairs = [pair.partition("=") for pair in labels.strip("{}").split(",") if pair] if labels else []
            samples[frozenset((key, text.strip('"')) for key, _, text in pairs)] = float(value)
        return samples

    def metric(self, name, **labels):
        """The sum of the samples with these labels."""
        return sum(value for found, value in self.metrics(name).items() if set(labels.items()) <= found)

    def read_labels(self, limit):
        """Takes over what the worker has counted per label; keeps what it had when it is gone."""
        if not self.running or self.paused:
            return
        try:
            rows = self.get_json(f"/debug/labels?limit={limit}")["labels"]
        except (OSError, ValueError):
            return
        with self.reading:
            merged = dict(self.counted.get(limit, {}))
            for label, used in rows:
                merged[label] = max(used, merged.get(label, 0))
            self.counted[limit] = merged

    def stop(self, within=30):
        """SIGTERM; the worker must leave gracefully, with exit code 0."""
        if self.running:
            self.signal(signal.SIGTERM)
        code = self.wait(within)
        checks.require(code == 0, f"{self.instance} ended with {code} on SIGTERM:\n{self.output()[-1500:]}")

    def kill(self):
        self.end()

    def pause(self):
        self.paused = True
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)
        self.paused = False


class DelayProbe(threading.Thread):
    """Asks the sink something twenty times a second and notes how long the answer took: on a busy machine requests are read that late,
    which is part of the skew between a worker's label and the sink's second."""

    def __init__(self, sink):
        super().__init__(daemon=True)
        self.sink, self.ended, self.delays = sink, threading.Event(), []
        self.start()

    def run(self):
        while not self.ended.wait(0.05):
            asked = time.time()
            with contextlib.suppress(OSError, ValueError):
                self.sink.counts()
                self.delays.append((asked, time.time()))

    def around(self, second):
        return max([checks.SKEW] + [1.5 * (answered - asked) for asked, answered in list(self.delays)
                                    if answered > second - 1 and asked < second + 1])


class Sink:
    """A `posthorn sink` on a port of its own; it may go away and come back there."""

    def __init__(self, test, name, options):
        self.test, self.name, self.options = test, name, list(options)
        self.port = free_port()
        self.file = test.folder / f"{name}.requests"
        self.read_at, self.rest, self.seen = 0, b"", []
        self.away = []  # [from, to] when it was not there
        self.process = None
        self.start()
        self.probe = DelayProbe(self)
        test.probes.append(self.probe)

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}/hooks/{self.name}"

    def start(self):
        self.process = Process(self.name, [BINARY, "sink", "--listen", f"127.0.0.1:{self.port}", "--log", self.file, "--quiet",
                                           *self.options], self.test.folder / f"{self.name}.log", die_with_parent_and_go_first)
        self.test.processes.append(self.process)
        eventually(f"{self.name} listens", lambda: self.counts() is not None, 15, every=0.05)
        if self.away:
            self.away[-1][1] = time.time()

    def stop(self):
        self.away.append([time.time(), float("inf")])
        self.process.signal(signal.SIGTERM)
        self.process.wait(10)

    def counts(self):
        return json.loads(http_get(f"http://127.0.0.1:{self.port}/_sink/counts"))

    def set(self, **behaviour):
        """status, fail, poison, fail_status, latency_ms, retry_after, reset; acts at once."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/_sink/set", json.dumps(behaviour).encode(),
                                         {"content-type": "application/json"})
        urllib.request.urlopen(request, timeout=5).close()

    def requests(self):
        """Every request logged so far, in order of arrival. A log line comes at most 200 ms after its request."""
        if self.file.exists():
            with open(self.file, "rb") as file:
                file.seek(self.read_at)
                data = self.rest + file.read()
                self.read_at = file.tell()
            *lines, self.rest = data.split(b"\n")
            for line in lines:
                entry = json.loads(line)
                at = entry["time_ns"] / 1e9
                self.seen.append(Request(entry["webhook_id"], at, entry["time_ns"] // 10**9, entry["attempt"], entry["status"],
                                         200 <= entry["status"] < 300, entry["subscription"], entry["headers"],
                                         entry.get("wait_ms", 0) / 1000, entry.get("reset", False)))
        return self.seen

    def delivered(self, subscription=None):
        return {request.message for request in self.requests()
                if request.ok and subscription in (None, request.subscription)}

    def per_second(self):
        return checks.per_second(self.requests())

    def skew(self, second):
        """How late requests may have been read around that second; checks.SKEW when the machine is quiet."""
        return self.probe.around(second)


class Broker:
    """A Kafka of scripts/kafka: shared by all scenarios of a ctest run, or the test's own of `own` brokers."""

    def __init__(self, test, own):
        self.shared = None if own else os.environ.get("POSTHORN_KAFKA")
        self.name = self.shared or f"system-{os.getpid()}-{random.randrange(10**6)}"
        self.test = test
        if self.shared:
            self.about = self.run_json("status")[0]
            checks.require(self.about["state"] == "running", f"the shared Kafka '{self.name}' is not running")
        else:
            self.about = self.run_json("start", "--port", "0", "--brokers", int(own) or 1)

    @property
    def bootstrap(self):
        return self.about["bootstrap"]

    def run(self, *arguments, within=120):
        command, *rest = map(str, arguments)
        run = subprocess.run([str(KAFKA), command, "--id", self.name, *rest], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=within)
        checks.require(run.returncode == 0, f"scripts/kafka {' '.join(map(str, arguments))} failed:\n{run.stderr[-1500:]}")
        return run.stdout

    def run_json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    @property
    def nodes(self):
        return [broker["node"] for broker in self.about["brokers"]]

    def restart(self, hard=False, node=1):
        """Also starts one that was killed."""
        self.run("restart", "--broker", node, *(["--hard"] if hard else []))

    def kill(self, node=1):
        self.run("kill", "--broker", node)

    def create_topic(self, name, partitions_wanted):
        kafka_wire.create_topic(self.bootstrap, name, partitions_wanted, replicas=len(self.nodes))
        eventually(f"topic {name} is there", lambda: len(kafka_wire.end_offsets(self.bootstrap, name)) == partitions_wanted, 20)

    def group_lag(self, group):
        """Kafka's own view, by kafka-consumer-groups: partition -> (committed offset, end offset, lag)."""
        rows = {}
        for line in self.run("tools", "kafka-consumer-groups", "--describe", "--group", group).splitlines():
            cells = line.split()
            if len(cells) >= 6 and cells[0] == group and cells[2].isdigit() and cells[5].isdigit():
                rows[int(cells[2])] = (int(cells[3]), int(cells[4]), int(cells[5]))
        return rows

    def close(self):
        if not self.shared:
            shutil.copytree(self.about["data"], self.test.folder / "kafka", dirs_exist_ok=True,
                            ignore=lambda folder, names: [name for name in names if name == "data"])
            self.run("stop", "--delete")
