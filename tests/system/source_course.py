"""What a fleet goes through with a configuration server, the same for every kind: changes, faults of the server, and back; a start
without the server."""

import json

import checks
import posthorn_system as system

IN_FORCE_WITHIN = 5
LONGEST_GAP = 2.0
system.PLANTED.add("planted-header")


class Course:
    def __init__(self, test, server):
        self.test, self.server = test, server
        self.topic = test.topic(partitions=4)
        test.produce(self.topic, 60_000)  # more than is delivered within the scenario's limit, however slowly the servers start
        self.sink = test.sink()
        self.cache = test.folder / "cache"
        test.deployment(subscriptions={**server.source(), "cache": str(self.cache)})
        self.header = test.folder / "header.secret"
        self.header.write_text("planted-header")
        self.rate = None
        self.known_at = None  # when it was seen in force
        self.worker = None

    def document(self, name, rate, more=""):
        """YAML, as one writes it."""
        return (f"# {name}\nsubscriptions:\n  - name: {name}\n    topic: {self.topic}\n    endpoint: {self.sink.endpoint}\n"
                f"    max_rate: {rate}/s\n    headers: {{ authorization: \"file:{self.header}\" }}\n{more}")

    def running(self, worker=None):
        """name -> max_rate of the subscriptions in force."""
        return {entry["name"]: entry["max_rate"] for entry in (worker or self.worker).get_json("/subscriptions")["subscriptions"]}

    def put(self, rate, documents=None, remove=()):
        """Writes billing's rate, and what else is given, in one step; does not wait."""
        at = self.server.put({"billing.yaml": self.document("billing", rate), **(documents or {})}, remove)
        self.pushed(at, rate)

    def pushed(self, at, rate):
        # Until it is seen in force, either may be.
        self.test.rates.set(at, max(rate, self.rate or rate))
        self.rate = rate

    def await_rate(self, what, *others):
        """On the worker, and on others."""
        began = system.time.time()
        for worker in (self.worker, *others):
            system.eventually(f"{what} is in force", lambda: str(self.running(worker).get("billing")) == f"{self.rate}/s", IN_FORCE_WITHIN,
                              every=0.02)
        now = self.known_at = system.time.time()
        self.test.rates.set(now, self.rate)
        self.test.say(f"{what}: in force after {now - began:.2f} s")

    def count(self, name):
        return self.worker.metric(name)

    def run(self):
        test, server = self.test, self.server
        self.put(150, {"shared.json": json.dumps({"instances": 1}), "audit.yaml": self.document("audit", 20)})
        test.watch_labels("billing")
        self.worker, = test.fleet_of(1)
        self.await_rate("the first snapshot")
        checks.require(set(self.running()) == {"audit", "billing"}, f"not both documents are in force: {self.running()}")
        system.eventually("deliveries run", lambda: len(self.sink.delivered("billing")) > 50, within=10)
        started = system.time.time()

        self.put(200)
        self.await_rate("a change")
        self.put(120)
        self.put(180)
        self.await_rate("the second of two fast changes")
        self.put(190, remove=["audit.yaml"])
        self.await_rate("a removal")
        checks.require(set(self.running()) == {"billing"}, "the removed subscription is still there")

        self.bad_revisions()

        test.say("the server is restarted")
        server.restart()
        self.put(160)
        self.await_rate("a change after a restart")
        server.restart("--hard")
        self.put(170)
        self.await_rate("a change after kill -9")
        server.run("pause")
        system.time.sleep(10)  # what is tested is that it hangs for so long
        server.run("resume")
        self.put(150)
        self.await_rate("a change after SIGSTOP for 10 s")

        failures = self.count("posthorn_config_source_failures_total")
        said = len(self.worker.events("source cannot be read"))
        server.spoil_credentials()
        self.put(140)
        system.eventually("wrong credentials are told", lambda: any(
            server.TOLD in event["why"] for event in self.worker.events("source cannot be read")[said:]), IN_FORCE_WITHIN)
        checks.require(self.count("posthorn_config_source_failures_total") > failures, "the failure is not counted")
        checks.require(str(self.running()["billing"]) == "150/s", "a change was taken with wrong credentials")
        server.mend_credentials()
        self.await_rate("a change with the right credentials again")

        server.restart("--hard", "--wipe")
        server.prepare()
        self.put(130, {"shared.json": json.dumps({"instances": 1})})
        self.await_rate("the content of a store that was wiped and refilled")
        self.finish(started)

    def bad_revisions(self):
        refused = self.count("posthorn_config_revisions_refused_total")
        self.server.put({"billing.yaml": self.document("billing", 999, "    timeot: 3s\n")})
        system.eventually("the refusal is told", lambda: self.count("posthorn_config_revisions_refused_total") == refused + 1, IN_FORCE_WITHIN)
        checks.require(str(self.running()["billing"]) == f"{self.rate}/s", "a refused revision is in force")
        checks.require("timeot" in self.worker.get("/config"), "/config does not show the refused revision's faults")
        self.put(210)
        self.await_rate("the corrected revision")

    def finish(self, started):
        times = [request.time for request in self.sink.requests() if request.subscription == "billing" and request.time > started]
        gap = max(later - earlier for earlier, later in zip(times, times[1:]))
        self.test.say(f"longest gap between two deliveries: {gap:.2f} s")
        checks.require(gap < LONGEST_GAP, f"no deliveries for {gap:.1f} s")
        checks.never_above(self.test.rates, self.test.labels("billing"))
        for name in ("audit", "billing"):  # of the same topic
            checks.finished_once([request for request in self.sink.requests() if request.subscription == name],
                                 [letter for letter in self.test.dead_letters() if letter.subscription == name])
        self.test.none_has_ended()
        for page in ("/config", "/subscriptions", "/metrics", "/readyz", "/fleet"):  # what they tell is looked through
            self.worker.get(page)

    def starts_without_the_server(self):
        """Workers that start while it is away: with the last good revision on disk, without any, and with a spoilt one."""
        test, server = self.test, self.server
        self.worker.stop()
        server.run("kill")
        aside = test.part("waiting")  # fleets of their own, so that they take nothing from this one's max-rate
        aside.deployment(subscriptions=server.source())
        bare = aside.worker("orders-0", called="bare", fleet=f"{aside.fleet}-bare")
        fleet, spoilt = f"{aside.fleet}-spoilt", bytearray((self.cache / f"{test.fleet}.last-good").read_bytes())
        spoilt[-1] ^= 1
        (aside.folder / f"{fleet}.last-good").write_bytes(spoilt)
        without = [bare, aside.worker("orders-0", called="spoilt", fleet=fleet, subscriptions__cache=str(aside.folder))]

        self.worker = test.worker("orders-0", called="orders-0-again").await_ready()
        test.say("ready without the server")
        checks.require(str(self.running()["billing"]) == f"{self.rate}/s", f"not the last good revision is in force: {self.running()}")
        checks.require(self.worker.events("its last good revision is in force"), "the log does not say that the last good revision runs")
        checks.require("the last good revision runs" in self.worker.get("/readyz"), "/readyz does not say that the last good revision runs")
        checks.require(self.count("posthorn_config_last_good") == 1, "posthorn_config_last_good is not 1")
        age = system.time.time() - self.known_at
        checks.require(self.count("posthorn_config_age_seconds") >= age - 1, f"the last good revision is not {age:.0f} s old")
        before = len(self.sink.delivered("billing"))
        system.eventually("deliveries run", lambda: len(self.sink.delivered("billing")) > before + 50, within=10)
        for worker in without:
            # Whoever asks early is told that nothing was read yet.
            system.eventually("the missing source is told", lambda: "the source cannot be read" in worker.readiness()[1], within=10)
            checks.require(worker.readiness()[0] == 503, f"{worker.name} is ready without a configuration")
        system.eventually("the spoilt file is told", lambda: any(
            "spoilt, or of another version" in event["why"] for event in without[1].events("cannot be used")), within=5)
        aside.none_has_ended()

        server.restart()
        self.put(120)
        self.await_rate("a change once the server is there", *without)
        checks.require(self.count("posthorn_config_last_good") == 0, "posthorn_config_last_good is still 1")
        for worker in without:
            worker.await_ready()
        for worker in (self.worker, *without):
            worker.stop()
        checks.never_above(test.rates, test.labels("billing"))


def run(test, kind):
    server = kind(test.folder)
    test.at_end.append(server.stop)  # when another part of the test has failed
    with server:
        server.prepare()
        course = Course(test, server)
        course.run()
        course.starts_without_the_server()
