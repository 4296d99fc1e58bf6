"""A real Apache Kafka on this machine: KRaft, one JVM per broker, started and stopped by an id.

Artifacts come from Maven Central once (kafka.pom.xml pins the version) and stay in .kafka/libs. An instance is a folder
with one `instance.json` (what it is) and one folder per broker (properties, data, log, pid). Several instances live side
by side. A process is only ever signalled when both its pid and its start time are the recorded ones.
"""

import argparse
import base64
import glob
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid

from local_instances import (HERE, Fault, LocalInstance, check_id, command_line, fetched, free_port, java, lock, note_pid, port_is_free,
                             require_free, run_command, running_pid, say)

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


# ---------------------------------------------------------------- artifacts

def libs(version):
    """The folder with the jars of `version`."""
    return fetched(ROOT, ROOT / "libs" / version, "kafka.pom.xml", f"kafka.version={version}", f"kafka_*-{version}.jar",
                   f"Apache Kafka {version}")


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

class Instance(LocalInstance):
    """One cluster."""

    ROOT = ROOT
    WHAT = "Kafka"

    @property
    def brokers(self):
        return self.about["brokers"]

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{broker['port']}" for broker in self.brokers)

    @property
    def login(self):
        """Where clients log in, or None."""
        return ",".join(f"127.0.0.1:{broker['login_port']}" for broker in self.brokers) if self.about.get("login") else None

    def broker(self, node):
        for broker in self.brokers:
            if broker["node"] == node:
                return broker
        raise Fault(f"'{self.name}' has the brokers 1 to {len(self.brokers)}, no {node}")

    def home(self, broker):
        return self.folder / f"broker-{broker['node']}"

    def pid(self, broker):
        """The pid of the running broker, or None."""
        return running_pid(self.home(broker) / "pid")

    def state(self):
        running = [self.pid(broker) is not None for broker in self.brokers]
        return "running" if all(running) else "stopped" if not any(running) else "partly running"

    def summary(self):
        return {"id": self.name, "state": self.state(), "version": self.about["version"], "bootstrap": self.bootstrap,
                "login": self.login, "data": str(self.folder),
                "brokers": [{"node": b["node"], "port": b["port"], "pid": self.pid(b)} for b in self.brokers]}


def ports_of(broker):
    return {broker[kind] for kind in ("port", "controller_port", "login_port") if kind in broker}


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
    }
    if instance.login:
        user, _, password = instance.about["login"].partition("=")
        lines["listeners"] += f",LOGIN://127.0.0.1:{broker['login_port']}"
        lines["advertised.listeners"] += f",LOGIN://127.0.0.1:{broker['login_port']}"
        lines["listener.security.protocol.map"] += ",LOGIN:SASL_PLAINTEXT"
        lines["listener.name.login.sasl.enabled.mechanisms"] = "PLAIN"
        lines["listener.name.login.plain.sasl.jaas.config"] = (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";')
    lines.update(instance.about["settings"])
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
    require_free(ports_of(broker))
    with open(home / "broker.log", "ab") as log:
        process = subprocess.Popen(
            [java(), f"-Xmx{instance.about['heap']}m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",  # most live for seconds
             "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
             "kafka.Kafka", str(home / "server.properties")],
            env=java_environment(instance.about["version"]), cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)
    note_pid(home / "pid", process)


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
    return instance.pid(broker) is not None or not all(map(port_is_free, ports_of(broker)))


def end(instance, brokers, hard=False):
    """Ends the brokers' processes: SIGTERM, and SIGKILL for those still there at the deadline; `hard`: SIGKILL at once."""
    waiting = {}
    for broker in brokers:
        pid = instance.pid(broker)
        if pid is not None:
            os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)
            if not hard:
                os.kill(pid, signal.SIGCONT)  # it may be paused
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


# ---------------------------------------------------------------- commands

def create(arguments):
    taken = set()
    for name in Instance.all_names():
        other = Instance.find(name)
        for broker in other.brokers if other else []:
            taken |= ports_of(broker)
    brokers = []
    for node in range(1, arguments.brokers + 1):
        port = free_port(taken) if arguments.port == 0 else arguments.port + node - 1
        brokers.append({"node": node, "port": port, "controller_port": free_port(taken)})
        if arguments.login:
            brokers[-1]["login_port"] = free_port(taken)
    folder = Instance.new_folder(arguments.id, arguments.data)
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
    return Instance(arguments.id, folder, {
        "version": arguments.version or DEFAULT_VERSION, "cluster": cluster, "heap": arguments.heap, "brokers": brokers,
        "login": arguments.login, "settings": dict(setting.split("=", 1) for setting in arguments.set)})


def command_start(arguments):
    for setting in arguments.set:
        if "=" not in setting:
            raise Fault(f"--set wants KEY=VALUE, not '{setting}'")
    created = None
    instance = Instance.find(arguments.id)
    libs(instance.about["version"] if instance else arguments.version or DEFAULT_VERSION)
    with lock(ROOT, "instances"):  # so that two starts at once do not choose the same ports
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
    names = [arguments.id] if arguments.id else Instance.all_names()
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


def signal_broker(arguments, number):
    instance = Instance.get(arguments.id)
    pid = instance.pid(instance.broker(arguments.broker))
    if pid is None:
        raise Fault(f"broker {arguments.broker} of '{instance.name}' is not running")
    os.kill(pid, number)


def command_restart(arguments):
    instance = Instance.get(arguments.id)
    broker = instance.broker(arguments.broker)
    if arguments.login and not instance.login:
        raise Fault(f"'{instance.name}' was started without --login")
    end(instance, [broker], hard=arguments.hard)
    if arguments.login:
        instance.about["login"] = arguments.login
        instance.save()
    if arguments.wipe:
        shutil.rmtree(instance.home(broker) / "data", ignore_errors=True)
    if arguments.login or arguments.wipe:
        format_storage(instance)
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
    parser, command = command_line(
        "scripts/kafka", "A real Apache Kafka on this machine, for trials and tests.",
        "examples:\n"
        "  scripts/kafka start                                  one broker at 127.0.0.1:9092\n"
        "  scripts/kafka start --id t1 --port 0 --json          another one on a free port; prints its address as JSON\n"
        "  scripts/kafka start --id big --brokers 3 --port 9192 three brokers, replication factor 3\n"
        "  scripts/kafka topic create orders --partitions 12\n"
        "  scripts/kafka tools kafka-consumer-groups --describe --all-groups\n"
        "  scripts/kafka tools --id t1 producer-perf --topic orders --num-records 1000 --record-size 200 --throughput -1\n"
        "  scripts/kafka stop --id t1 --delete")

    def identified(sub, **more):
        sub.add_argument("--id", metavar="NAME", **{"default": "local", "help": "which instance (default: local)", **more})

    start = command("start", command_start, "start an instance, or go on with the data of a stopped one")
    identified(start)
    start.add_argument("--version", help=f"Kafka version (default {DEFAULT_VERSION})")
    start.add_argument("--port", type=int, default=9092, help="first broker's port, the others follow (default 9092); 0: free ones")
    start.add_argument("--brokers", type=int, default=1, choices=[1, 2, 3], help="default 1; with 3: replication 3, min.insync 2")
    start.add_argument("--data", metavar="DIR", help="where its files go (default .kafka/data/NAME)")
    start.add_argument("--heap", type=int, default=768, metavar="MB", help="heap of each JVM (default 768)")
    start.add_argument("--login", metavar="USER=PASSWORD", help="a second listener where clients log in (SASL PLAIN), at `login` of --json")
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

    for name, number, text in (("pause", signal.SIGSTOP, "SIGSTOP one broker: it hangs"), ("resume", signal.SIGCONT, "SIGCONT it")):
        paused = command(name, lambda arguments, number=number: signal_broker(arguments, number), text)
        identified(paused)
        paused.add_argument("--broker", type=int, default=1, metavar="NODE")

    restart = command("restart", command_restart, "restart one broker with its data on its port")
    identified(restart)
    restart.add_argument("--broker", type=int, default=1, metavar="NODE")
    restart.add_argument("--hard", action="store_true", help="SIGKILL instead of an orderly stop")
    restart.add_argument("--wipe", action="store_true", help="without its data")
    restart.add_argument("--login", metavar="USER=PASSWORD", help="from now on this one logs in")
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
    check_id(parser, parsed)
    if "=" not in (getattr(parsed, "login", None) or "="):
        parser.error("--login wants USER=PASSWORD")
    return parsed


if __name__ == "__main__":
    sys.exit(run_command(parse(sys.argv[1:])))
