"""A real Apache Kafka on this machine: KRaft, one JVM per broker, started and stopped by an id.

Artifacts come from Maven Central once (kafka.pom.xml pins the version) and stay in .kafka/libs. An instance is a folder
with one `instance.json` (what it is) and one folder per broker (properties, data, log, pid). Several instances live side
by side. A process is only ever signalled when both its pid and its start time are the recorded ones.
"""

import argparse
import base64
import contextlib
import fcntl
import glob
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent / ".kafka"
DEFAULT_VERSION = "4.1.1"
START_DEADLINE = 60.0
STOP_DEADLINE = 20.0

TOOLS = {
    "kafka-topics": ["org.apache.kafka.tools.TopicCommand"],
    "kafka-consumer-groups": ["org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"],
    "kafka-configs": ["kafka.admin.ConfigCommand"],
    "kafka-acls": ["org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand"],
    "kafka-get-offsets": ["org.apache.kafka.tools.GetOffsetShell"],
    "kafka-delete-records": ["org.apache.kafka.tools.DeleteRecordsCommand"],
    "kafka-log-dirs": ["org.apache.kafka.tools.LogDirsCommand"],
    "kafka-leader-election": ["org.apache.kafka.tools.LeaderElectionCommand", "kafka.admin.LeaderElectionCommand"],
    "kafka-reassign-partitions": ["org.apache.kafka.tools.reassign.ReassignPartitionsCommand"],
    "kafka-metadata-quorum": ["org.apache.kafka.tools.MetadataQuorumCommand"],
    "kafka-broker-api-versions": ["org.apache.kafka.tools.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"],
    "kafka-dump-log": ["kafka.tools.DumpLogSegments"],
    "producer-perf": ["org.apache.kafka.tools.ProducerPerformance"],
    "consumer-perf": ["org.apache.kafka.tools.ConsumerPerformance"],
    "console-producer": ["org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"],
    "console-consumer": ["org.apache.kafka.tools.consumer.ConsoleConsumer"],
}
ALIASES = {
    "kafka-producer-perf-test": "producer-perf", "kafka-consumer-perf-test": "consumer-perf",
    "kafka-console-producer": "console-producer", "kafka-console-consumer": "console-consumer",
}
NO_BOOTSTRAP = {"kafka-dump-log", "producer-perf"}


class Fault(Exception):
    """What was asked cannot be done; the text says why and what to do next."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- artifacts

def libs(version):
    """The folder with the jars of `version`; fetches them with Maven when they are not there yet."""
    ROOT.mkdir(exist_ok=True)
    folder = ROOT / "libs" / version
    if folder.is_dir():
        return folder
    with open(ROOT / "libs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        if not shutil.which("mvn"):
            raise Fault("Maven is needed to fetch Kafka; install it (apt-get install maven) and try again")
        say(f"fetching Apache Kafka {version} from Maven Central (about 60 MB, once) ...")
        partial = ROOT / "libs" / f".{version}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        run = subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / "kafka.pom.xml"), f"-Dkafka.version={version}",
             "dependency:copy-dependencies", f"-DoutputDirectory={partial}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0 or not glob.glob(f"{partial}/kafka_*-{version}.jar"):
            shutil.rmtree(partial, ignore_errors=True)
            reason = next((line for line in run.stdout.splitlines() if "ERROR" in line), "no output")
            raise Fault(f"Kafka {version} could not be fetched from Maven Central; is the network up, and does this version exist?\n"
                        f"  {reason.partition('[ERROR]')[2].strip() or reason}")
        partial.rename(folder)
    return folder


def java():
    found = shutil.which("java")
    if not found:
        raise Fault("Java 17 is needed; install it (apt-get install openjdk-17-jre-headless) and try again")
    return found


def java_environment(version):
    return {**os.environ, "CLASSPATH": str(libs(version) / "*")}


def has_class(version, name):
    import zipfile
    entry = name.replace(".", "/") + ".class"
    for jar in glob.glob(str(libs(version) / "kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            if entry in archive.NameToInfo:
                return True
    return False


# ---------------------------------------------------------------- processes and ports

def start_time_of(pid):
    """The kernel's start time of a living process, or None: tells a recycled pid from the process meant."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def port_is_free(port):
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port(taken):
    """A port below the kernel's ephemeral range, so that no outgoing connection takes it while a broker restarts."""
    for _ in range(1000):
        port = random.randint(20000, 32000)
        if port not in taken and port_is_free(port):
            taken.add(port)
            return port
    raise Fault("no free port between 20000 and 32000")


def live_brokers(port):
    """How many brokers the one at `port` lists as alive, asked in Kafka's own protocol (Metadata v1); 0 when it is not up."""
    client = b"local"
    body = struct.pack(">hhih", 3, 1, 1, len(client)) + client + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as link:
            link.sendall(struct.pack(">i", len(body)) + body)
            reply = b""
            while len(reply) < 12:
                more = link.recv(4096)
                if not more:
                    return 0
                reply += more
    except OSError:
        return 0
    return struct.unpack(">i", reply[8:12])[0]


# ---------------------------------------------------------------- instances

class Instance:
    """One cluster by its id: its description and where it lives."""

    def __init__(self, name, folder, about):
        self.name, self.folder, self.about = name, pathlib.Path(folder), about

    @staticmethod
    def pointer(name):
        return ROOT / "instances" / f"{name}.path"

    @classmethod
    def find(cls, name):
        try:
            folder = pathlib.Path(cls.pointer(name).read_text().strip())
            return cls(name, folder, json.loads((folder / "instance.json").read_text()))
        except OSError:
            return None

    @classmethod
    def get(cls, name):
        found = cls.find(name)
        if found is None:
            known = ", ".join(all_names()) or "none"
            raise Fault(f"there is no Kafka with the id '{name}' (known: {known}); start one with: scripts/kafka start --id {name}")
        return found

    def save(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "instance.json").write_text(json.dumps(self.about, indent=1))
        self.pointer(self.name).parent.mkdir(parents=True, exist_ok=True)
        self.pointer(self.name).write_text(f"{self.folder}\n")

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.pointer(self.name).unlink(missing_ok=True)

    @property
    def brokers(self):
        return self.about["brokers"]

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{broker['port']}" for broker in self.brokers)

    def broker(self, node):
        for broker in self.brokers:
            if broker["node"] == node:
                return broker
        raise Fault(f"'{self.name}' has the brokers 1 to {len(self.brokers)}, no {node}")

    def home(self, broker):
        return self.folder / f"broker-{broker['node']}"

    def pid(self, broker):
        """The pid of the running broker, or None."""
        try:
            pid, started = map(int, (self.home(broker) / "pid").read_text().split())
        except (OSError, ValueError):
            return None
        return pid if start_time_of(pid) == started else None

    def state(self):
        running = [self.pid(broker) is not None for broker in self.brokers]
        return "running" if all(running) else "stopped" if not any(running) else "partly running"

    def summary(self):
        return {"id": self.name, "state": self.state(), "version": self.about["version"], "bootstrap": self.bootstrap,
                "data": str(self.folder),
                "brokers": [{"node": b["node"], "port": b["port"], "pid": self.pid(b)} for b in self.brokers]}


def all_names():
    return sorted(path.stem for path in (ROOT / "instances").glob("*.path"))


def properties(instance, broker):
    count = len(instance.brokers)
    replicas, minimum = (3, 2) if count >= 3 else (1, 1)
    voters = ",".join(f"{b['node']}@127.0.0.1:{b['controller_port']}" for b in instance.brokers)
    lines = {
        "process.roles": "broker,controller",
        "node.id": broker["node"],
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{broker['port']},CONTROLLER://127.0.0.1:{broker['controller_port']}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker['port']}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": instance.home(broker) / "data",
        "default.replication.factor": replicas,
        "min.insync.replicas": minimum,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": minimum,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker may only come back when its session has ended: 4 s instead of 9.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 1000,
        **instance.about["settings"],
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def format_storage(instance):
    """Writes each new broker's properties and formats its folder; all brokers at once, a JVM each."""
    environment = java_environment(instance.about["version"])
    formatting = []
    for broker in instance.brokers:
        home = instance.home(broker)
        home.mkdir(parents=True, exist_ok=True)
        (home / "server.properties").write_text(properties(instance, broker))
        if not (home / "data" / "meta.properties").exists():
            formatting.append((broker, subprocess.Popen(
                [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "kafka.tools.StorageTool", "format",
                 "-t", instance.about["cluster"], "-c", str(home / "server.properties")],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)))
    for broker, process in formatting:
        output, _ = process.communicate()
        if process.returncode != 0:
            raise Fault(f"Kafka could not format {instance.home(broker)}:\n{output[-2000:]}")


def launch(instance, broker):
    """Starts one broker's JVM; does not wait for it."""
    home = instance.home(broker)
    for port in (broker["port"], broker["controller_port"]):
        if not port_is_free(port):
            raise Fault(f"port {port} is taken by another process; choose another with --port, or --port 0 for a free one")
    with open(home / "broker.log", "ab") as log:
        process = subprocess.Popen(
            [java(), f"-Xmx{instance.about['heap']}m", "-Xms128m", "-XX:+UseSerialGC",
             "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
             "kafka.Kafka", str(home / "server.properties")],
            env=java_environment(instance.about["version"]), cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)
    (home / "pid").write_text(f"{process.pid} {start_time_of(process.pid) or 0}\n")


def await_up(instance, brokers, expected):
    """Waits until each of `brokers` lists at least `expected` living brokers."""
    deadline = time.monotonic() + START_DEADLINE
    for broker in brokers:
        while live_brokers(broker["port"]) < expected:
            log = instance.home(broker) / "broker.log"
            if instance.pid(broker) is None:
                tail = log.read_text(errors="replace").splitlines()[-15:]
                raise Fault(f"broker {broker['node']} ended while starting; the end of {log}:\n  " + "\n  ".join(tail))
            if time.monotonic() > deadline:
                raise Fault(f"broker {broker['node']} did not come up within {START_DEADLINE:.0f} s; see {log}")
            time.sleep(0.05)


def is_there(instance, broker):
    """Whether the process still lives or still holds its ports (a killed JVM's threads close them a little later)."""
    return instance.pid(broker) is not None or not (port_is_free(broker["port"]) and port_is_free(broker["controller_port"]))


def end(instance, brokers, hard=False):
    """Ends the brokers' processes: SIGTERM, and SIGKILL for those still there at the deadline; `hard`: SIGKILL at once."""
    waiting = {}
    for broker in brokers:
        pid = instance.pid(broker)
        if pid is not None:
            os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)
            waiting[broker["node"]] = broker
    deadline = time.monotonic() + STOP_DEADLINE
    killed = hard
    while waiting:
        waiting = {node: broker for node, broker in waiting.items() if is_there(instance, broker)}
        if waiting and time.monotonic() > deadline:
            if killed and time.monotonic() > deadline + STOP_DEADLINE:
                raise Fault(f"brokers {sorted(waiting)} of '{instance.name}' do not end even on SIGKILL")
            if not killed:
                say(f"broker {sorted(waiting)} still there after {STOP_DEADLINE:.0f} s: SIGKILL")
                for pid in filter(None, map(instance.pid, waiting.values())):
                    os.kill(pid, signal.SIGKILL)
                killed = True
        if waiting:
            time.sleep(0.05)
    for broker in brokers:
        (instance.home(broker) / "pid").unlink(missing_ok=True)


@contextlib.contextmanager
def registry_lock():
    """Held while ports are chosen and processes launched, so that two starts at once do not choose the same."""
    ROOT.mkdir(exist_ok=True)
    with open(ROOT / "instances.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---------------------------------------------------------------- commands

def create(arguments):
    taken = set()
    for name in all_names():
        other = Instance.find(name)
        for broker in other.brokers if other else []:
            taken |= {broker["port"], broker["controller_port"]}
    brokers = []
    for node in range(1, arguments.brokers + 1):
        port = free_port(taken) if arguments.port == 0 else arguments.port + node - 1
        brokers.append({"node": node, "port": port, "controller_port": free_port(taken)})
    folder = pathlib.Path(arguments.data).resolve() if arguments.data else ROOT / "data" / arguments.id
    if (folder / "instance.json").exists():
        raise Fault(f"{folder} belongs to another instance already; choose another --data")
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
    return Instance(arguments.id, folder, {
        "version": arguments.version or DEFAULT_VERSION, "cluster": cluster, "heap": arguments.heap, "brokers": brokers,
        "settings": dict(setting.split("=", 1) for setting in arguments.set)})


def command_start(arguments):
    for setting in arguments.set:
        if "=" not in setting:
            raise Fault(f"--set wants KEY=VALUE, not '{setting}'")
    created = None
    instance = Instance.find(arguments.id)
    libs(instance.about["version"] if instance else arguments.version or DEFAULT_VERSION)
    with registry_lock():
        if instance is None:
            created = instance = create(arguments)
            instance.save()
        elif arguments.version and arguments.version != instance.about["version"]:
            raise Fault(f"'{instance.name}' holds data of Kafka {instance.about['version']}, not {arguments.version}; choose another "
                        f"--id, or delete it first: scripts/kafka stop --id {instance.name} --delete")
        down = [broker for broker in instance.brokers if instance.pid(broker) is None]
    try:
        if down:
            format_storage(instance)
            for broker in down:
                launch(instance, broker)
        await_up(instance, instance.brokers, len(instance.brokers))
    except Fault:
        end(instance, down, hard=True)
        if created:
            created.forget()
        raise
    report(instance, arguments.json)


def report(instance, as_json):
    if as_json:
        print(json.dumps(instance.summary()))
        return
    about = instance.summary()
    pids = " ".join(f"{b['node']}:{b['pid'] or '-'}" for b in about["brokers"])
    print(f"{about['id']}  Kafka {about['version']}  {about['state']}  bootstrap.servers={about['bootstrap']}  pids {pids}  data {about['data']}")


def command_stop(arguments):
    if Instance.find(arguments.id) is None and arguments.delete:
        return
    instance = Instance.get(arguments.id)
    end(instance, instance.brokers, hard=arguments.delete)
    if arguments.delete:
        instance.forget()
    say(f"{instance.name} stopped" + (" and deleted" if arguments.delete else f"; its data stays in {instance.folder}"))


def command_status(arguments):
    names = [arguments.id] if arguments.id else all_names()
    found = [Instance.get(name) for name in names]
    if arguments.json:
        print(json.dumps([instance.summary() for instance in found]))
        return
    for instance in found:
        report(instance, False)
    if not found:
        print("no instances; start one with: scripts/kafka start")


def command_kill(arguments):
    instance = Instance.get(arguments.id)
    end(instance, [instance.broker(arguments.broker)], hard=True)


def command_restart(arguments):
    instance = Instance.get(arguments.id)
    broker = instance.broker(arguments.broker)
    end(instance, [broker], hard=arguments.hard)
    launch(instance, broker)
    await_up(instance, [broker], sum(instance.pid(b) is not None for b in instance.brokers))
    report(instance, arguments.json)


def run_tool(instance, name, arguments):
    name = ALIASES.get(name, name)
    if name not in TOOLS:
        raise Fault(f"no tool '{name}'; there are: {', '.join(sorted(TOOLS))}")
    version = instance.about["version"]
    main = next((main for main in TOOLS[name] if has_class(version, main)), None)
    if main is None:
        raise Fault(f"Kafka {version} has no {name}")
    arguments = list(arguments)
    if name == "producer-perf":
        if not any("bootstrap" in argument for argument in arguments):
            properties_at = arguments.index("--producer-props") if "--producer-props" in arguments else None
            if properties_at is None:
                arguments += ["--producer-props", f"bootstrap.servers={instance.bootstrap}"]
            else:
                arguments.insert(properties_at + 1, f"bootstrap.servers={instance.bootstrap}")
    elif name not in NO_BOOTSTRAP and not any(a.startswith(("--bootstrap", "--broker-list")) for a in arguments):
        arguments = ["--bootstrap-server", instance.bootstrap] + arguments
    return [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", main, *arguments], java_environment(version)


def command_tools(arguments):
    instance = Instance.get(arguments.id)
    command, environment = run_tool(instance, arguments.name, arguments.arguments)
    os.execve(command[0], command, environment)


def command_topic(arguments):
    instance = Instance.get(arguments.id)
    options = [f"--{arguments.action}"]
    if arguments.name:
        options += ["--topic", arguments.name]
    elif arguments.action in ("create", "delete"):
        raise Fault(f"topic {arguments.action} needs a NAME")
    if arguments.action == "create":
        options += ["--partitions", str(arguments.partitions), "--if-not-exists"]
        if arguments.replication_factor is not None:
            options += ["--replication-factor", str(arguments.replication_factor)]
        for setting in arguments.config:
            options += ["--config", setting]
    command, environment = run_tool(instance, "kafka-topics", options)
    os.execve(command[0], command, environment)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/kafka", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="A real Apache Kafka on this machine, for trials and tests.",
        epilog="examples:\n"
               "  scripts/kafka start                                  one broker at 127.0.0.1:9092\n"
               "  scripts/kafka start --id t1 --port 0 --json          another one on a free port; prints its address as JSON\n"
               "  scripts/kafka start --id big --brokers 3 --port 9192 three brokers, replication factor 3\n"
               "  scripts/kafka topic create orders --partitions 12\n"
               "  scripts/kafka tools kafka-consumer-groups --describe --all-groups\n"
               "  scripts/kafka tools --id t1 producer-perf --topic orders --num-records 1000 --record-size 200 --throughput -1\n"
               "  scripts/kafka stop --id t1 --delete")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    def identified(sub, **more):
        sub.add_argument("--id", metavar="NAME", **{"default": "local", "help": "which instance (default: local)", **more})

    start = command("start", command_start, "start an instance, or go on with the data of a stopped one")
    identified(start)
    start.add_argument("--version", help=f"Kafka version (default {DEFAULT_VERSION})")
    start.add_argument("--port", type=int, default=9092, help="first broker's port, the others follow (default 9092); 0: free ones")
    start.add_argument("--brokers", type=int, default=1, choices=[1, 2, 3], help="default 1; with 3: replication 3, min.insync 2")
    start.add_argument("--data", metavar="DIR", help="where its files go (default .kafka/data/NAME)")
    start.add_argument("--heap", type=int, default=768, metavar="MB", help="heap of each JVM (default 768)")
    start.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting, repeatable")
    start.add_argument("--json", action="store_true", help="print id, bootstrap address and pids as one JSON object")

    fetch = command("fetch", lambda arguments: print(libs(arguments.version)), "fetch Kafka from Maven Central; start does it too")
    fetch.add_argument("--version", default=DEFAULT_VERSION, help=f"Kafka version (default {DEFAULT_VERSION})")

    stop = command("stop", command_stop, "stop an instance; its data stays")
    identified(stop)
    stop.add_argument("--delete", action="store_true", help="kill it and delete its data")

    status = command("status", command_status, "show the instances")
    identified(status, default=None, help="only this one")
    status.add_argument("--json", action="store_true")

    kill = command("kill", command_kill, "SIGKILL one broker; data and port stay")
    identified(kill)
    kill.add_argument("--broker", type=int, default=1, metavar="NODE")

    restart = command("restart", command_restart, "restart one broker with its data on its port")
    identified(restart)
    restart.add_argument("--broker", type=int, default=1, metavar="NODE")
    restart.add_argument("--hard", action="store_true", help="SIGKILL instead of an orderly stop")
    restart.add_argument("--json", action="store_true")

    topic = command("topic", command_topic, "create, list, describe or delete topics")
    topic.add_argument("action", choices=["create", "list", "describe", "delete"])
    topic.add_argument("name", nargs="?")
    topic.add_argument("--partitions", type=int, default=1)
    topic.add_argument("--replication-factor", type=int, metavar="N", help="default: one replica on each broker, at most 3")
    topic.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    identified(topic)

    tools = command("tools", command_tools, "run one of Kafka's own command-line tools against an instance")
    identified(tools)
    tools.add_argument("name", metavar="TOOL", help=", ".join(sorted(TOOLS)))
    tools.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")

    parsed = parser.parse_args(arguments)
    name = getattr(parsed, "id", None)
    if name is not None and not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        parser.error(f"--id wants letters, digits, '-', '_' and '.', not '{name}'")
    return parsed


def main():
    arguments = parse(sys.argv[1:])
    try:
        arguments.run(arguments)
    except Fault as fault:
        say(f"error: {fault}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
