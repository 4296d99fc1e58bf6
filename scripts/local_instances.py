"""What servers on this machine have in common, those of kafka_local.py and of config_servers_local.py: each is an instance with an id,
a folder with `instance.json` (what it is), and processes that are only ever signalled when both pid and start time are the recorded ones.
"""

import argparse
import contextlib
import fcntl
import glob
import json
import pathlib
import random
import shutil
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Fault(Exception):
    """What was asked cannot be done; the text says why and what to do next."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- artifacts

def java():
    found = shutil.which("java")
    if not found:
        raise Fault("Java 17 is needed; install it (apt-get install openjdk-17-jre-headless) and try again")
    return found


@contextlib.contextmanager
def lock(root, name):
    """Held by one process at a time."""
    root.mkdir(exist_ok=True)
    with open(root / f"{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetched(root, folder, pom, setting, jar, what):
    """`folder` with the jars that `pom` names; fetches them with Maven when they are not there yet. `jar`: one of them, a pattern."""
    if folder.is_dir():
        return folder
    with lock(root, "libs"):
        if folder.is_dir():
            return folder
        if not shutil.which("mvn"):
            raise Fault(f"Maven is needed to fetch {what}; install it (apt-get install maven) and try again")
        say(f"fetching {what} from Maven Central (about 60 MB, once) ...")
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        run = subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / pom), f"-D{setting}", "dependency:copy-dependencies",
             f"-DoutputDirectory={partial}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0 or not glob.glob(f"{partial}/{jar}"):
            shutil.rmtree(partial, ignore_errors=True)
            reason = next((line for line in run.stdout.splitlines() if "ERROR" in line), "no output")
            raise Fault(f"{what} could not be fetched from Maven Central; is the network up, and does this version exist?\n"
                        f"  {reason.partition('[ERROR]')[2].strip() or reason}")
        partial.rename(folder)
    return folder


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
    """A port below the kernel's ephemeral range, so that no outgoing connection takes it while its process restarts."""
    for _ in range(1000):
        port = random.randint(20000, 32000)
        if port not in taken and port_is_free(port):
            taken.add(port)
            return port
    raise Fault("no free port between 20000 and 32000")


def note_pid(file, process):
    file.write_text(f"{process.pid} {start_time_of(process.pid) or 0}\n")


def running_pid(file):
    """Of the process that was noted there and still runs, or None."""
    try:
        pid, started = map(int, file.read_text().split())
    except (OSError, ValueError):
        return None
    return pid if start_time_of(pid) == started else None


def require_free(ports):
    for port in ports:
        if not port_is_free(port):
            raise Fault(f"port {port} is taken by another process; choose another with --port, or --port 0 for a free one")


# ---------------------------------------------------------------- instances

class LocalInstance:
    """What it is (`about`, kept as JSON) and where it lives, by its id. A kind of server derives from it and says where all of its kind
    are registered (ROOT) and what one is called (WHAT)."""

    ROOT = None
    WHAT = ""

    def __init__(self, name, folder, about):
        self.name, self.folder, self.about = name, pathlib.Path(folder), about

    @classmethod
    def pointer(cls, name):
        return cls.ROOT / "instances" / f"{name}.path"

    @classmethod
    def all_names(cls):
        return sorted(path.stem for path in (cls.ROOT / "instances").glob("*.path"))

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
            raise Fault(f"there is no {cls.WHAT} with the id '{name}' (known: {', '.join(cls.all_names()) or 'none'}); `start` makes one")
        return found

    @classmethod
    def new_folder(cls, name, data):
        """Where a new one will live: `data`, or else below ROOT."""
        folder = pathlib.Path(data).resolve() if data else cls.ROOT / "data" / name
        if (folder / "instance.json").exists():
            raise Fault(f"{folder} belongs to another instance already; choose another --data")
        return folder

    def save(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "instance.json").write_text(json.dumps(self.about, indent=1))
        self.pointer(self.name).parent.mkdir(parents=True, exist_ok=True)
        self.pointer(self.name).write_text(f"{self.folder}\n")

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.pointer(self.name).unlink(missing_ok=True)


# ---------------------------------------------------------------- command lines

def command_line(prog, description, epilog):
    """A parser, and the function that adds a command to it: name, what it runs with the arguments, text for its help."""
    parser = argparse.ArgumentParser(prog=prog, description=description, epilog=epilog,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    return parser, command


def check_id(parser, parsed):
    """An id becomes the name of files."""
    name = getattr(parsed, "id", None)
    if name is not None and not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        parser.error(f"--id wants letters, digits, '-', '_' and '.', not '{name}'")


def run_command(arguments):
    """`arguments.run`; returns the exit code."""
    try:
        arguments.run(arguments)
    except Fault as fault:
        say(f"error: {fault}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
