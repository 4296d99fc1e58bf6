"""Real configuration servers for system tests, started by scripts/config-servers and scripts/kafka, and clients that write to them.

All kinds are used alike: `put` writes and removes documents in one step, `source` is what stands in posthorn.yaml for them.
"""

import base64
import json
import os
import pathlib
import random
import re
import subprocess
import time
import urllib.error
import urllib.request

import kafka_wire
import posthorn_system

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What a worker logs in with, right or wrong; "anonymous" is a token, too, the right one of Central Dogma.
posthorn_system.PLANTED.update({
    "anonymous", "appToken-planted-wrong", "planted-etcd's first", "planted-etcd's second", "Bearer posthorn", "Bearer planted-wrong",
    "planted-query", "planted-topic-password", "planted-topic-other"})
posthorn_system.PLANTED_FORMS.add(re.compile(r"(?<![A-Za-z])[A-Za-z]{16}\.[0-9]"))  # what etcd gives who has logged in


class Refused(OSError):
    """The server answered with something else than 2xx."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:300]}")
        self.status, self.body = status, body


class Server:
    """One server of a kind, on a port of its own; a context manager that deletes it at the end."""

    SCRIPT = ROOT / "scripts" / "config-servers"
    KIND = ""
    SECRET = ""
    TOLD = ""  # what a worker says of wrong credentials

    def __init__(self, folder, within=120):
        self.folder = pathlib.Path(folder)
        self.name = f"{self.KIND}-{os.getpid()}-{random.randrange(10**6)}"
        self.within = within
        self.url = None  # once it is started
        self.secret = self.folder / f"{self.name}.secret"  # what a worker logs in with
        self.secret.write_text(self.SECRET)

    def __enter__(self):
        self.url = json.loads(self.run("start", self.KIND, "--data", str(self.folder / self.name), "--json"))["url"]
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Also one that is starting, or stopped already."""
        self.run("stop", "--delete")

    def run(self, command, *arguments):
        run = subprocess.run([str(self.SCRIPT), command, *arguments, "--id", self.name], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=self.within)
        if run.returncode != 0:
            raise OSError(f"{self.SCRIPT.name} {command} failed: {run.stderr[-1500:]}")
        return run.stdout

    def restart(self, *options):
        """Also one that was killed."""
        self.run("restart", *options)

    def call(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json", **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")) from error


class CentralDogma(Server):
    KIND = "central-dogma"
    SECRET = "anonymous\n"  # the one token it takes without logins
    TOLD = "the token is not accepted"
    REPOSITORY = "/api/v1/projects/delivery/repos/cfg"
    ANONYMOUS = {"authorization": "Bearer anonymous"}

    def prepare(self):
        """In an empty store."""
        self.call("POST", "/api/v1/projects", {"name": "delivery"}, self.ANONYMOUS)
        self.call("POST", "/api/v1/projects/delivery/repos", {"name": "cfg"}, self.ANONYMOUS)

    def put(self, documents, remove=()):
        """One commit; returns the moment it was asked for. A `.json` document is sent as JSON, what else as text."""
        changes = [{"path": f"/subscriptions/{name}", "type": "UPSERT_JSON", "content": json.loads(text)} if name.endswith(".json") else
                   {"path": f"/subscriptions/{name}", "type": "UPSERT_TEXT", "content": text} for name, text in documents.items()]
        changes += [{"path": f"/subscriptions/{name}", "type": "REMOVE"} for name in remove]
        at = time.time()
        self.call("POST", self.REPOSITORY + "/contents?revision=-1", {"commitMessage": {"summary": "a test"}, "changes": changes},
                  self.ANONYMOUS)
        return at

    def source(self):
        return {"central_dogma": {"url": self.url, "project": "delivery", "repository": "cfg", "path": "/subscriptions/**",
                                  "token": f"file:{self.secret}"}}

    def spoil_credentials(self):
        self.secret.write_text("appToken-planted-wrong\n")

    def mend_credentials(self):
        self.secret.write_text(self.SECRET)


class Etcd(Server):
    KIND = "etcd"
    SECRET = "planted-etcd's first\n"
    TOLD = "authentication failed"
    PREFIX = "/posthorn/orders/"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.token = None

    @staticmethod
    def bytes_of(text):
        return base64.b64encode(text.encode()).decode()

    def ask(self, path, body):
        return json.loads(self.call("POST", path, body, {"authorization": self.token} if self.token else None))

    def prepare(self):
        """In an empty store: a user that may read the prefix and nothing else."""
        self.token = None
        self.ask("/v3/auth/user/add", {"name": "root", "password": "root"})
        self.ask("/v3/auth/role/add", {"name": "root"})
        self.ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
        self.ask("/v3/auth/user/add", {"name": "posthorn", "password": self.secret.read_text().strip()})
        self.ask("/v3/auth/role/add", {"name": "reader"})
        self.ask("/v3/auth/role/grant", {"name": "reader", "perm": {"permType": "READ", "key": self.bytes_of(self.PREFIX),
                                                                    "range_end": self.bytes_of(self.PREFIX[:-1] + "0")}})
        self.ask("/v3/auth/user/grant", {"user": "posthorn", "role": "reader"})
        self.ask("/v3/auth/enable", {})
        self.log_in()

    def log_in(self):
        self.token = None
        self.token = self.ask("/v3/auth/authenticate", {"name": "root", "password": "root"})["token"]

    def restart(self, *options):
        super().restart(*options)
        self.token = None
        if "--wipe" not in options:
            self.log_in()

    def put(self, documents, remove=()):
        """One transaction; returns the moment it was asked for."""
        steps = [{"requestPut": {"key": self.bytes_of(self.PREFIX + name), "value": self.bytes_of(text)}}
                 for name, text in documents.items()]
        steps += [{"requestDeleteRange": {"key": self.bytes_of(self.PREFIX + name)}} for name in remove]
        at = time.time()
        self.ask("/v3/kv/txn", {"success": steps})
        return at

    def source(self):
        return {"etcd": {"url": self.url, "prefix": self.PREFIX, "user": "posthorn", "password": f"file:{self.secret}"}}

    def spoil_credentials(self):
        """The password is another now, and what was given for the old one is void."""
        self.ask("/v3/auth/user/changepw", {"name": "posthorn", "password": "planted-etcd's second"})

    def mend_credentials(self):
        self.secret.write_text("planted-etcd's second\n")


class Nginx(Server):
    """A URL is one document: what is put is joined into one file, replaced by a rename."""

    KIND = "nginx"
    SECRET = "Bearer posthorn\n"
    TOLD = "answers 401"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.documents = {}

    @property
    def file(self):
        return self.folder / self.name / "data" / "orders.yaml"

    def prepare(self):
        self.documents = {}

    def put(self, documents, remove=()):
        self.documents.update(documents)
        for name in remove:
            del self.documents[name]
        aside = self.file.with_suffix(".new")
        aside.write_text("".join(f"---\n{text}\n" for text in self.documents.values()))
        at = time.time()
        aside.rename(self.file)
        return at

    def source(self):
        return {"url": {"url": f"{self.url}/orders.yaml?token=planted-query", "every": "200ms", "headers": {"authorization": f"file:{self.secret}"}}}

    def spoil_credentials(self):
        self.secret.write_text("Bearer planted-wrong\n")

    def mend_credentials(self):
        self.secret.write_text(self.SECRET)


class KafkaTopic(Server):
    """A compacted topic in a Kafka of its own. Workers log in there; whoever writes uses the listener that asks nobody."""

    SCRIPT = ROOT / "scripts" / "kafka"
    KIND = "kafka-topic"
    SECRET = "planted-topic-password"
    TOLD = "SASL authentication error"
    TOPIC = "orders.subscriptions"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.login = None

    def __enter__(self):
        started = json.loads(self.run("start", "--port", "0", "--heap", "256", "--login", f"posthorn={self.SECRET}",
                                      "--data", str(self.folder / self.name), "--json"))
        self.url, self.login = started["bootstrap"], started["login"]
        return self

    def prepare(self):
        """In an empty store: the topic as `posthorn subscriptions put` would make it."""
        kafka_wire.create_topic(self.url, self.TOPIC, 1, replicas=1,
                                settings={"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})

    def put(self, documents, remove=()):
        """One after the other, as any producer may; returns the moment it was asked for."""
        records = [f"{name}\x1f{text}\x1e" for name, text in documents.items()] + [f"{name}\x1f\x1e" for name in remove]
        at = time.time()
        subprocess.run(["kcat", "-P", "-q", "-b", self.url, "-t", self.TOPIC, "-p", "0", "-K", "\\x1f", "-D", "\\x1e", "-Z", "-X", "acks=all"],
                       input="".join(records), text=True, check=True, timeout=30)
        return at

    def source(self):
        return {"kafka_topic": {"name": self.TOPIC, "kafka": {
            "bootstrap.servers": self.login, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN",
            "sasl.username": "posthorn", "sasl.password": self.SECRET}}}

    def spoil_credentials(self):
        """The password is another now, and nobody is logged in any more."""
        self.restart("--hard", "--login", "posthorn=planted-topic-other")

    def mend_credentials(self):
        self.restart("--hard", "--login", f"posthorn={self.SECRET}")
