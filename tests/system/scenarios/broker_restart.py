"""The broker restarted under load: no worker exits, nothing is lost, deliveries are back within 15 s."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 200
OWN_BROKER = True
MESSAGES = 12_000
RATE = 300
BACK_WITHIN = 15


def run(test):
    topic = test.topic(partitions=12)
    test.produce(topic, MESSAGES)
    sink = test.sink()
    test.deployment()
    test.rates.set(test.subscriptions(
        {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": f"{RATE}/s"}, instances=3), RATE)
    test.watch_labels("billing")
    test.fleet_of(3)
    system.eventually("deliveries run", lambda: len(sink.delivered()) > RATE * 2, within=20)

    test.say("the broker is restarted")
    test.broker.restart()
    up = system.time.time()
    test.say("the broker is up again")
    known = len(sink.requests())
    system.eventually("new messages are delivered again", lambda: len(sink.requests()) > known + RATE, within=BACK_WITHIN)
    test.produce(topic, 500)
    system.eventually("messages produced after the restart are delivered too",
                      lambda: any(request.time > up for request in sink.requests()) and len(sink.delivered()) >= MESSAGES + 500,
                      within=75, every=0.3)
    test.none_has_ended()
    system.eventually("the stored offsets reach the end", lambda: sum(test.committed("billing").values()) == MESSAGES + 500, within=20)

    labels = test.labels("billing")
    longest = max(later.time - earlier.time for earlier, later in zip(sink.requests(), sink.requests()[1:]))
    test.say(f"longest gap between two requests: {longest:.1f} s")
    checks.never_above(test.rates, labels)
    checks.never_above_at_sink(test.rates, sink.per_second(), workers=3, skew=sink.skew)
    checks.everything_finished(test.produced(topic), sink.requests(), test.dead_letters())
    for worker in test.workers:
        worker.stop()
