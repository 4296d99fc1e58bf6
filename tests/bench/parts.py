"""The processes of a benchmark: a Kafka, a sink, workers, and what the kernel says about them."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("POSTHORN_BENCH_BUILD", ROOT / "build" / "bench"))
POSTHORN = BUILD / "posthorn"
TICK = os.sysconf("SC_CLK_TCK")


class Fault(Exception):
    """It cannot be measured; the text says why."""


def say(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def tool(name):
    return BUILD / "tests" / "bench" / name


def cpu_seconds(pid):
    """User and system time of all threads, those that have ended included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def footprint(pid):
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {"resident_mb": int(status["VmRSS"].split()[0]) / 1024, "peak_mb": int(status["VmHWM"].split()[0]) / 1024,
            "threads": int(status["Threads"]), "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def eventually(what, condition, within, every=0.05):
    deadline = time.monotonic() + within
    while True:
        with contextlib.suppress(OSError):
            value = condition()
            if value:
                return value
        if time.monotonic() > deadline:
            raise Fault(f"not within {within} s: {what}")
        time.sleep(every)


def get(address, path, timeout=5):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=timeout) as answer:
        return json.load(answer)


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Fault(f"{' '.join(map(str, command[:2]))} failed: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


def end(process, within=40):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Kafka:
    """One broker of scripts/kafka with its data in a folder of ours; both go at the end."""

    def __enter__(self):
        self.id = f"bench-{os.getpid()}"
        self.folder = tempfile.mkdtemp(prefix="posthorn-bench-kafka-")
        about = run(ROOT / "scripts" / "kafka", "start", "--id", self.id, "--port", "0", "--data", self.folder, "--json")
        self.bootstrap = json.loads(about)["bootstrap"]
        return self

    def __exit__(self, *_):
        run(ROOT / "scripts" / "kafka", "stop", "--id", self.id, "--delete")
        shutil.rmtree(self.folder, ignore_errors=True)

    def topics(self, names, partitions):
        run(tool("bench_produce"), "--brokers", self.bootstrap, *[part for name in names for part in ("--topic", name)],
            "--create", partitions, "--messages", 0)

    def produce(self, topics, messages, rate=None):
        """Returns [(partition, offset, produced at ns)] when a rate is given."""
        out = run(tool("bench_produce"), "--brokers", self.bootstrap, *[part for name in topics for part in ("--topic", name)],
                  "--messages", messages, *(["--rate", rate] if rate else []))
        return [tuple(map(int, line.split())) for line in out.splitlines()]

    def start_producing(self, topics, messages, rate):
        return subprocess.Popen([tool("bench_produce"), "--brokers", self.bootstrap, "--messages", str(messages), "--rate", str(rate),
                                 *[part for name in topics for part in ("--topic", name)]], stdout=subprocess.DEVNULL)


class Sink:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __enter__(self):
        self.process = subprocess.Popen([POSTHORN, "sink", "--listen", "127.0.0.1:0", *self.arguments], stdout=subprocess.PIPE, text=True)
        self.address = json.loads(self.process.stdout.readline())["listening"]
        return self

    def __exit__(self, *_):
        end(self.process)
        self.process.stdout.close()

    def counts(self):
        return get(self.address, "/_sink/counts")


class Worker:
    """One `posthorn worker` of a fleet of its own name. `subscriptions` is the text of the file."""

    def __init__(self, kafka, fleet, subscriptions, slot=0, sets=()):
        self.folder = tempfile.mkdtemp(prefix="posthorn-bench-worker-")
        folder = pathlib.Path(self.folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.admin = f"127.0.0.1:{probe.getsockname()[1]}"
        (folder / "subscriptions.yaml").write_text(subscriptions)
        (folder / "posthorn.yaml").write_text(
            f"fleet: {fleet}\ninstance: bench-{slot}\nkafka: {{ bootstrap.servers: '{kafka.bootstrap}' }}\n"
            f"admin: {self.admin}\nsubscriptions: {{ file: subscriptions.yaml }}\n")
        self.command = [POSTHORN, "worker", "--config", folder / "posthorn.yaml", *[part for s in sets for part in ("--set", s)]]

    def __enter__(self):
        self.log = open(pathlib.Path(self.folder) / "log", "w+")
        self.process = subprocess.Popen(self.command, stderr=self.log)
        return self

    def __exit__(self, kind, *_):
        end(self.process)
        if kind is not None:
            self.log.seek(0)
            print(self.log.read()[-3000:], file=sys.stderr)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self):
        return self.process.pid

    def cpu(self):
        return cpu_seconds(self.pid)

    def subscriptions(self):
        if self.process.poll() is not None:
            raise Fault(f"the worker ended with {self.process.returncode}")
        return get(self.admin, "/subscriptions", 20)["subscriptions"]

    def delivered(self):
        return sum(subscription["delivered"] for subscription in self.subscriptions())

    def owned(self):
        return len(get(self.admin, "/fleet")["owned_partitions"])
