"""An endpoint that answers 503 for 3 s: attempts fall within a second and are back at the max-rate within 10 s; `Retry-After: 2` holds them."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 80
RATE = 100
BUSY_SECONDS = 3
ASKED_SECONDS = 2


def arrived(sink, start, end):
    return sum(start <= request.time < end for request in sink.requests())


def state(worker):
    return worker.get_json("/subscriptions?name=billing")["subscriptions"][0]["health"]["state"]


def run(test):
    topic = test.topic(partitions=4)
    test.produce(topic, 6_000)
    sink = test.sink()
    test.deployment()
    test.rates.set(test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s",
                                       "backoff": {"initial": "1s", "max": "2s"}}, instances=1), RATE)
    test.watch_labels("billing")
    worker, = test.fleet_of(1)
    system.eventually("the max-rate is used", lambda: arrived(sink, system.time.time() - 1, system.time.time()) > RATE * 0.9, within=20)

    busy = system.time.time()
    sink.set(status=503)
    system.time.sleep(BUSY_SECONDS)
    sink.set(status=200)
    well = system.time.time()
    checks.require(state(worker) in ("slowed", "probing"), f"the endpoint fails and the worker calls it {state(worker)}")
    system.eventually("it is healthy again", lambda: state(worker) == "healthy", within=10)
    recovered = system.time.time()
    system.time.sleep(2)
    falling = arrived(sink, busy + 1, busy + 2)
    after = arrived(sink, recovered, recovered + 2)
    test.say(f"attempts in the second after the first: {falling}; healthy {recovered - well:.1f} s after the end, then {after} in 2 s")
    checks.require(falling <= 0.7 * RATE, f"{falling} attempts in the second that began one second after the first 503")
    checks.require(after >= 2 * RATE * 0.9, f"only {after} attempts in 2 s after the recovery")

    sink.set(status=503, retry_after=ASKED_SECONDS)
    asked = system.eventually("the endpoint has asked to wait",
                              lambda: next((r.time for r in sink.requests() if r.time > recovered + 2 and not r.ok), None), within=5)
    sink.set(status=200, retry_after=0)
    system.time.sleep(max(0.0, asked + ASKED_SECONDS + 0.5 - system.time.time()))
    # What was on its way when the first of them was answered is all that comes.
    early = arrived(sink, asked + 0.5, asked + ASKED_SECONDS - 0.05)
    checks.require(early == 0, f"{early} attempts during the wait the endpoint asked for")
    system.eventually("it is healthy again", lambda: state(worker) == "healthy", within=12)

    events = [entry["event"] for entry in worker.events("endpoint")]
    test.say(f"log: {events}")
    for event in ("slowed down", "asked to wait", "healthy again"):
        checks.require(any(event in line for line in events), f"no log line says: {event}")
    checks.require(len(events) <= 20, f"{len(events)} log lines about the endpoint's health")
    checks.never_above(test.rates, test.labels("billing"))
    test.none_has_ended()
