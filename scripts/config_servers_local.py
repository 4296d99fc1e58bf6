"""Real configuration servers on this machine: Central Dogma, etcd and nginx, each instance one process, started and stopped by an id.

Central Dogma comes from Maven Central once (config-servers.pom.xml pins it) and stays in .config-servers/libs; etcd and
nginx are the distribution's. An instance is a folder with `instance.json` (what it is), the server's data, log and pid. A process is only
ever signalled when both its pid and its start time are the recorded ones.
"""

import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

from local_instances import (HERE, Fault, LocalInstance, check_id, command_line, fetched, free_port, java, lock, note_pid, port_is_free,
                             require_free, run_command, running_pid, say)

ROOT = HERE.parent / ".config-servers"
START_DEADLINE = 60.0
STOP_DEADLINE = 20.0


class CentralDogma:
    """One JVM with a small heap; a change of 10 MiB, its own limit, needs more."""

    VERSION = "0.61.0"
    PORTS = 1
    READY = "/monitor/l7check"

    @classmethod
    def fetch(cls):
        """The folder with its jars."""
        return fetched(ROOT, ROOT / "libs" / f"central-dogma-{cls.VERSION}", "config-servers.pom.xml", f"centraldogma.version={cls.VERSION}",
                       f"centraldogma-server-{cls.VERSION}.jar", f"Central Dogma {cls.VERSION}")

    @classmethod
    def command(cls, instance):
        home, about = instance.folder, instance.about
        settings = {
            "dataDir": str(home / "data"),
            "ports": [{"localAddress": {"host": "127.0.0.1", "port": about["ports"][0]},
                       "protocols": ["https" if about["tls"] else "http"]}],
            "webAppEnabled": False, "mirroringEnabled": False, "numWorkers": 2, "numRepositoryWorkers": 4,
            "gracefulShutdownTimeout": {"quietPeriodMillis": 100, "timeoutMillis": 2000},
            "replication": {"method": "NONE"},
        }
        if about["tls"]:
            settings["tls"] = {"keyCertChainFile": about["tls"][0], "keyFile": about["tls"][1]}
        (home / "dogma.json").write_text(json.dumps(settings, indent=1))
        # What a killed one leaves behind would keep the next from starting.
        (home / "dogma.pid").unlink(missing_ok=True)
        # Its log is for trouble only: a line per request would be most of the file.
        (home / "logback.xml").write_text(
            '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
            "<pattern>%d{HH:mm:ss.SSS} %-5level %logger{20} %msg%n</pattern></encoder></appender>"
            '<root level="WARN"><appender-ref ref="out"/></root></configuration>\n')
        return [java(), "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{cls.fetch()}/*",
                f"-Dlogback.configurationFile={home / 'logback.xml'}", "com.linecorp.centraldogma.server.Main",
                "-config", str(home / "dogma.json"), "-pidfile", str(home / "dogma.pid")]


class Etcd:
    """A cluster of one."""

    VERSION = "the distribution's"
    PORTS = 2
    READY = "/health"

    @staticmethod
    def fetch():
        found = shutil.which("etcd")
        if not found:
            raise Fault("etcd is needed; install it (apt-get install etcd-server) and try again")
        return found

    @classmethod
    def command(cls, instance):
        client, peer = instance.about["ports"]
        of_peer = f"http://127.0.0.1:{peer}"
        command = [cls.fetch(), "--name", "local", "--data-dir", str(instance.folder / "data"),
                   "--listen-client-urls", instance.url, "--advertise-client-urls", instance.url,
                   "--listen-peer-urls", of_peer, "--initial-advertise-peer-urls", of_peer,
                   "--initial-cluster", f"local={of_peer}", "--logger", "zap", "--log-outputs", "stderr",
                   # A cluster of one need not wait long for others before it elects itself.
                   "--heartbeat-interval", "20", "--election-timeout", "200"]
        if instance.about["tls"]:
            command += ["--cert-file", instance.about["tls"][0], "--key-file", instance.about["tls"][1]]
        if instance.about.get("client_ca"):
            command += ["--client-cert-auth", "--trusted-ca-file", instance.about["client_ca"]]
        return command


class Nginx:
    """Serves the files of its data folder to whoever says `Authorization: Bearer posthorn`; one process, so that it hangs or dies whole."""

    VERSION = "the distribution's"
    PORTS = 1
    READY = "/ready"

    @staticmethod
    def fetch():
        found = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if not found:
            raise Fault("nginx is needed; install it (apt-get install nginx-light) and try again")
        return found

    @classmethod
    def command(cls, instance):
        home, about = instance.folder, instance.about
        (home / "data").mkdir(exist_ok=True)
        tls = about["tls"]
        temporary = "\n  ".join(f"{what}_temp_path {home}/temporary;" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (home / "nginx.conf").write_text(f"""daemon off;
master_process off;
pid {home}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  {temporary}
  types {{ text/yaml yaml; application/json json; }}
  gzip on;
  gzip_types text/yaml application/json;
  gzip_min_length 1;
  map $http_authorization $allowed {{ default 0; "Bearer posthorn" 1; }}
  server {{
    listen 127.0.0.1:{about["ports"][0]}{" ssl" if tls else ""};
    {f"ssl_certificate {tls[0]}; ssl_certificate_key {tls[1]};" if tls else ""}
    root {home}/data;
    location = /ready {{ return 200; }}
    location / {{ if ($allowed = 0) {{ return 401; }} }}
  }}
}}
""")
        return [cls.fetch(), "-p", str(home), "-c", str(home / "nginx.conf"), "-e", "stderr"]


KINDS = {"central-dogma": CentralDogma, "etcd": Etcd, "nginx": Nginx}


class Instance(LocalInstance):
    """One server."""

    ROOT = ROOT
    WHAT = "configuration server"

    @property
    def kind(self):
        return KINDS[self.about["kind"]]

    @property
    def url(self):
        return f"{'https' if self.about['tls'] else 'http'}://127.0.0.1:{self.about['ports'][0]}"

    @property
    def pid(self):
        """Of the running process, or None."""
        return running_pid(self.folder / "pid")

    def summary(self):
        return {"id": self.name, "kind": self.about["kind"], "state": "running" if self.pid else "stopped", "url": self.url,
                "pid": self.pid, "data": str(self.folder)}

    # ---------------------------------------------------- its process

    def launch(self):
        require_free(self.about["ports"])
        command = self.kind.command(self)
        with open(self.folder / "server.log", "ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        note_pid(self.folder / "pid", process)

    def answers(self):
        context = ssl._create_unverified_context() if self.about["tls"] else None  # only whether it is up
        if self.about.get("client_ca"):
            context.load_cert_chain(*self.about["tls"])
        try:
            with urllib.request.urlopen(self.url + self.kind.READY, timeout=2, context=context) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def await_up(self):
        deadline = time.monotonic() + START_DEADLINE
        while not self.answers():
            log = self.folder / "server.log"
            if self.pid is None:
                tail = log.read_text(errors="replace").splitlines()[-15:]
                raise Fault(f"'{self.name}' ended while starting; the end of {log}:\n  " + "\n  ".join(tail))
            if time.monotonic() > deadline:
                raise Fault(f"'{self.name}' did not come up within {START_DEADLINE:.0f} s; see {log}")
            time.sleep(0.05)

    def signal(self, number):
        pid = self.pid
        if pid is None:
            raise Fault(f"'{self.name}' is not running")
        os.kill(pid, number)

    def end(self, hard=False):
        """SIGTERM, and SIGKILL when it is still there at the deadline; `hard`: SIGKILL at once."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)
            if not hard:
                os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + STOP_DEADLINE
        while self.pid is not None or not all(map(port_is_free, self.about["ports"])):
            if time.monotonic() > deadline:
                if hard:
                    raise Fault(f"'{self.name}' does not end even on SIGKILL")
                say(f"'{self.name}' is still there after {STOP_DEADLINE:.0f} s: SIGKILL")
                self.end(hard=True)
                return
            time.sleep(0.02)
        (self.folder / "pid").unlink(missing_ok=True)


# ---------------------------------------------------------------- commands

def create(arguments):
    taken = set()
    for name in Instance.all_names():
        other = Instance.find(name)
        taken |= set(other.about["ports"]) if other else set()
    kind = KINDS[arguments.kind]
    ports = [free_port(taken) if arguments.port == 0 else arguments.port]
    ports += [free_port(taken) for _ in range(kind.PORTS - 1)]
    folder = Instance.new_folder(arguments.id, arguments.data)
    tls = [str(pathlib.Path(path).resolve()) for path in arguments.tls] if arguments.tls else None
    client_ca = str(pathlib.Path(arguments.client_ca).resolve()) if arguments.client_ca else None
    return Instance(arguments.id, folder, {"kind": arguments.kind, "ports": ports, "tls": tls, "client_ca": client_ca})


def command_start(arguments):
    if arguments.client_ca and not (arguments.kind == "etcd" and arguments.tls):
        raise Fault("--client-ca is for etcd with --tls")
    KINDS[arguments.kind].fetch()
    created = None
    with lock(ROOT, "instances"):  # so that two starts at once do not choose the same ports
        instance = Instance.find(arguments.id)
        if instance is None:
            created = instance = create(arguments)
            instance.save()
        elif instance.about["kind"] != arguments.kind:
            raise Fault(f"'{arguments.id}' is a {instance.about['kind']}; choose another --id")
        if instance.pid is None:
            instance.launch()
    try:
        instance.await_up()
    except Fault:
        instance.end(hard=True)
        if created:
            created.forget()
        raise
    report(instance, arguments.json)


def report(instance, as_json):
    about = instance.summary()
    if as_json:
        print(json.dumps(about))
    else:
        print(f"{about['id']}  {about['kind']}  {about['state']}  {about['url']}  pid {about['pid'] or '-'}  data {about['data']}")


def command_stop(arguments):
    if Instance.find(arguments.id) is None and arguments.delete:
        return
    instance = Instance.get(arguments.id)
    instance.end(hard=arguments.delete)
    if arguments.delete:
        instance.forget()


def command_restart(arguments):
    instance = Instance.get(arguments.id)
    instance.end(hard=arguments.hard)
    if arguments.wipe:
        shutil.rmtree(instance.folder / "data", ignore_errors=True)
    instance.launch()
    instance.await_up()
    report(instance, arguments.json)


def command_status(arguments):
    names = [arguments.id] if arguments.id else Instance.all_names()
    instances = [Instance.get(name) for name in names]
    if arguments.json:
        print(json.dumps([instance.summary() for instance in instances]))
        return
    for instance in instances:
        report(instance, False)


def parse(arguments):
    parser, command = command_line(
        "scripts/config-servers", "Real configuration servers on this machine, for trials and tests.",
        "examples:\n"
        "  scripts/config-servers start central-dogma --port 26462       an empty Central Dogma, no login\n"
        "  scripts/config-servers start etcd --id t1 --port 0 --json     an empty etcd on a free port; prints where as JSON\n"
        "  scripts/config-servers restart --id t1 --wipe                 its store is empty again\n"
        "  scripts/config-servers pause --id t1                          SIGSTOP; resume ends it\n"
        "  scripts/config-servers stop --id t1 --delete")

    def identified(sub, **more):
        sub.add_argument("--id", metavar="NAME", **{"required": True, "help": "which one", **more})
        return sub

    start = command("start", command_start, "start a server, or go on with the data of a stopped one")
    start.add_argument("kind", choices=sorted(KINDS))
    identified(start, required=False, default=None, help="default: the kind")
    start.add_argument("--port", type=int, default=0, help="default 0: a free one")
    start.add_argument("--data", metavar="DIR", help="where its files go (default .config-servers/data/NAME)")
    start.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="PEM files: serve https")
    start.add_argument("--client-ca", metavar="CERTIFICATE",
                       help="PEM file: etcd with --tls asks clients for a certificate that this one has signed, as it has signed its own")
    start.add_argument("--json", action="store_true", help="print id, url and pid as one JSON object")

    fetch = command("fetch", lambda arguments: print(KINDS[arguments.kind].fetch()), "get what a kind needs; start does it too")
    fetch.add_argument("kind", choices=sorted(KINDS))

    stop = identified(command("stop", command_stop, "stop a server; its data stays"))
    stop.add_argument("--delete", action="store_true", help="kill it and delete its data")

    restart = identified(command("restart", command_restart, "restart a server on its port"))
    restart.add_argument("--hard", action="store_true", help="SIGKILL instead of an orderly stop")
    restart.add_argument("--wipe", action="store_true", help="without its data")
    restart.add_argument("--json", action="store_true")

    identified(command("kill", lambda arguments: Instance.get(arguments.id).end(hard=True), "SIGKILL; data and port stay"))
    identified(command("pause", lambda arguments: Instance.get(arguments.id).signal(signal.SIGSTOP), "SIGSTOP: it hangs"))
    identified(command("resume", lambda arguments: Instance.get(arguments.id).signal(signal.SIGCONT), "SIGCONT"))

    status = identified(command("status", command_status, "show the servers"), required=False, default=None, help="only this one")
    status.add_argument("--json", action="store_true")

    parsed = parser.parse_args(arguments)
    if parsed.command == "start" and parsed.id is None:
        parsed.id = parsed.kind
    check_id(parser, parsed)
    return parsed


if __name__ == "__main__":
    sys.exit(run_command(parse(sys.argv[1:])))
