"""The subscriptions in a Kafka topic: written by command, in force within a second, whatever happens to topic and broker."""

import json
import subprocess
import time

import checks
import posthorn_system as system

LIMIT_SECONDS = 200
OWN_BROKER = True
IN_FORCE = 5  # seconds, also once the topic is back


class Topic:
    """The documents, by `posthorn subscriptions`."""

    def __init__(self, test, topic, endpoint):
        self.test, self.messages, self.endpoint = test, topic, endpoint
        self.name = f"{test.run_id}.subscriptions"

    def run(self, *arguments, code=0, text="", env=None):
        return self.test.command("subscriptions", *arguments, code=code, text=text, env=env)

    def json(self, *arguments, **more):
        return json.loads(self.run(*arguments, "--json", **more).stdout)

    def document(self, name, rate=None, **more):
        one = {"name": name, "topic": self.messages, "endpoint": self.endpoint, **more}
        if rate is not None:
            one["max_rate"] = f"{rate}/s"
        return json.dumps({"subscriptions": [one]}, indent=1) + "\n"

    def put(self, name, text, *arguments):
        return self.json("put", "-", "--name", name, *arguments, text=text)

    def raw(self, key, value):
        """As somebody with another tool would."""
        subprocess.run(["kcat", "-P", "-b", self.test.broker.bootstrap, "-t", self.name, "-k", key], input=value, text=True, check=True,
                       timeout=30)


def in_force(workers, change, within=IN_FORCE):
    """Awaits the revision of a change on every worker."""
    def everywhere():
        running = [worker.get_json("/subscriptions")["revision"] for worker in workers]  # null before the first
        return all(revision is not None and revision["digest"] == change["revision"] for revision in running)
    system.eventually(f"revision {change['revision']} is in force", everywhere, within, every=0.02)


def run(test):
    topic = test.topic(partitions=4)
    test.produce(topic, 20_000)
    sink = test.sink()
    documents = Topic(test, topic, sink.endpoint)
    test.deployment(subscriptions={"kafka_topic": {"name": documents.name}})
    workers = [test.worker(f"orders-{number}") for number in range(2)]
    for worker in workers:
        system.eventually("the missing topic is told", lambda: "is not there" in worker.output(), within=20)
        status, page = worker.readiness()
        checks.require(status == 503 and "is not there" in page, f"before there is a revision /readyz says {status}: {page}")

    # The first put makes the topic; a bad one does not.
    refused = documents.run("put", "-", "--name", "billing.yaml", text=documents.document("billing", timeot="3s"), code=1)
    checks.require("timeot" in refused.stderr and "nothing was written" in refused.stderr, f"the fault is not told: {refused.stderr}")
    test.rates.set(time.time(), 200)
    first = documents.put("billing.yaml", documents.document("billing", 200))
    in_force(workers, first, within=10)
    for worker in workers:
        worker.await_ready()
    system.eventually("deliveries run", lambda: len(sink.delivered()) > 200, within=20)
    test.watch_labels("billing")
    test.say("first snapshot")

    # A change, two fast changes, another document and its removal.
    begun = time.time()
    changed = documents.put("billing.yaml", documents.document("billing", 100), "--expect", first["documents"][0]["revision"])
    checks.require("max_rate: 200/s -> 100/s" in changed["difference"], f"the difference: {changed['difference']}")
    in_force(workers, changed, within=2)
    test.say(f"a change is in force on both workers {time.time() - begun:.2f} s after the command began")
    test.rates.set(time.time(), 100)
    stale = documents.run("put", "-", "--name", "billing.yaml", "--expect", first["documents"][0]["revision"],
                          text=documents.document("billing", 900), code=1)
    checks.require("somebody has changed it" in stale.stderr, f"the lost update was not told: {stale.stderr}")
    test.rates.set(time.time(), 150)
    documents.put("billing.yaml", documents.document("billing", 120))
    in_force(workers, documents.put("billing.yaml", documents.document("billing", 150)))
    in_force(workers, documents.put("audit.yaml", documents.document("audit", 20, start="latest")))
    checks.require([one["subscriptions"] for one in documents.json("list")["documents"]] == [["audit"], ["billing"]], "list is wrong")
    in_force(workers, documents.json("delete", "audit"))
    system.eventually("the removed subscription is gone",
                      lambda: all(len(worker.get_json("/subscriptions")["subscriptions"]) == 1 for worker in workers), within=10)
    last = documents.run("delete", "billing", code=1)
    checks.require("allow_empty" in last.stderr, f"the last document could be deleted: {last.stderr}")
    test.say("changed, added, removed")

    # An editor, and somebody who writes while it is open.
    editor = test.folder / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/150/140/' \"$1\"\n")
    editor.chmod(0o755)
    edited = documents.run("edit", "billing", env={"EDITOR": str(editor), "VISUAL": ""})
    checks.require("max_rate: 150/s -> 140/s" in edited.stdout, f"edited: {edited.stdout}")
    beside = documents.document("billing", 130)
    (test.folder / "beside.json").write_text(beside)
    editor.write_text(f"#!/bin/sh\n{system.BINARY} subscriptions put {test.folder}/beside.json --name billing.yaml "
                      f"--config {test.folder}/posthorn.yaml >&2 || exit 9\nsed -i 's/140/190/' \"$1\"\n")
    overtaken = documents.run("edit", "billing", env={"EDITOR": str(editor), "VISUAL": ""}, code=1)
    checks.require("somebody has changed it" in overtaken.stderr and "your text is in" in overtaken.stderr, overtaken.stderr)
    checks.require(documents.run("get", "billing").stdout == beside, "what was written meanwhile is lost")
    history = [json.loads(line) for line in documents.run("history", "--json").stdout.splitlines()]
    checks.require([entry["what"] for entry in history if entry["name"] == "audit.yaml"] == ["put", "delete"], f"history: {history}")
    checks.require("@" in history[0]["by"], "the history does not say who")
    earlier = documents.run("get", "billing", "--offset", history[0]["offset"]).stdout
    checks.require(earlier == documents.document("billing", 200), f"an earlier version: {earlier}")
    test.say("edited")

    # What others write: no document at all, and a bad one, which is corrected.
    documents.raw("user-17", "no document")
    documents.raw("billing.yaml", documents.document("billing", colour="red"))
    for worker in workers:
        system.eventually("the bad revision is refused", lambda: worker.metric("posthorn_config_newest_refused") == 1, within=IN_FORCE)
        checks.require(worker.metric("posthorn_config_foreign_records_total") >= 1, "the foreign record is not counted")
    before = len(sink.delivered())
    system.eventually("deliveries go on", lambda: len(sink.delivered()) > before + 100, within=10)
    in_force(workers, documents.put("billing.yaml", documents.document("billing", 120)))
    test.say("a bad revision was refused, and corrected")

    # The broker is restarted, then the topic is deleted, and made anew.
    test.broker.restart(hard=True)
    change = documents.put("billing.yaml", documents.document("billing", 110))
    in_force(workers, change)
    test.say("the broker was restarted")
    test.broker.run("topic", "delete", documents.name)
    for worker in workers:
        system.eventually("the missing topic is told", lambda: "is not there" in worker.events("source cannot be read")[-1]["why"], within=10)
    before = len(sink.delivered())
    system.eventually("deliveries go on", lambda: len(sink.delivered()) > before + 100, within=15)
    change = documents.put("billing.yaml", documents.document("billing", 100))
    in_force(workers, change)
    test.say("the topic was deleted and made anew")

    # All workers switch at one instant.
    at = time.time()
    change = documents.put("billing.yaml", documents.document("billing", 300), "--effective-in", "3s")
    test.rates.set(at + 3, 300)
    in_force(workers, change, within=6)
    checks.require(time.time() > at + 3, "in force before its time")
    system.await_label(int(at) + 5)
    labels = test.labels("billing")
    checks.never_above(test.rates, labels)
    test.none_has_ended()
    for worker in workers:
        worker.stop()
