"""An endpoint that fails 30 % and sleeps, then is away for 20 s: all is delivered or dead-lettered once, with the right reason."""

import checks
import posthorn_system as system

LIMIT_SECONDS = 120
AWAY_SECONDS = 20
BATCH = 800
LONGEST_ANSWER = 0.12


def policy(topic, sink):
    return {"name": "billing", "topic": topic, "endpoint": sink.endpoint, "max_rate": "600/s", "ttl": "5s", "timeout": "2s",
            "backoff": {"initial": "200ms", "multiplier": 2, "max": "1s", "jitter": "full"}}


def run_with(test, while_away):
    """The course of events; `while_away()` is called when the endpoint has been away for a moment."""
    topic = test.topic(partitions=6)
    # Not 503: overload would slow the workers down, and what they have not tried yet does not expire.
    sink = test.sink("--fail", "30%", "--fail-status", "500", "--latency", f"10ms-{int(LONGEST_ANSWER * 1000)}ms")
    test.deployment()
    test.rates.set(test.subscriptions(policy(topic, sink), instances=3), 600)
    test.produce(topic, BATCH)
    test.watch_labels("billing")
    test.fleet_of(3)
    system.eventually("most of the first batch is delivered", lambda: len(sink.delivered()) > BATCH * 0.9, within=20)

    test.produce(topic, BATCH)
    test.say("the sink goes away")
    sink.stop()
    gone = system.time.monotonic()
    test.produce(topic, BATCH)
    while_away()
    expired_before = len(test.dead_letters())
    system.eventually("messages expire while the endpoint is away",
                      lambda: len(test.dead_letters()) > expired_before + BATCH // 20, within=AWAY_SECONDS, every=0.5)
    system.time.sleep(max(0.0, AWAY_SECONDS - (system.time.monotonic() - gone)))
    sink.start()
    test.say("the sink is back")
    test.produce(topic, BATCH)

    produced = test.produced(topic)

    def all_finished():
        return produced <= sink.delivered() | {letter.message for letter in test.dead_letters()}

    try:
        system.eventually("every message is delivered or dead-lettered", all_finished, within=40, every=0.5)
    except system.TimedOut:
        checks.everything_finished(produced, sink.requests(), test.dead_letters())  # says which are missing
        raise
    # All that was finished is also stored: nothing is left to be sent again.
    system.eventually("the stored offsets reach the end", lambda: sum(test.committed("billing").values()) == len(produced), within=10)

    letters = test.dead_letters()
    delivered = sink.delivered()
    test.say(f"{len(produced)} produced, {len(delivered)} delivered in {len(sink.requests())} attempts, {len(letters)} dead letters")
    checks.reasons(letters, {"expired"})
    checks.require(len(letters) >= BATCH // 20, "hardly anything expired although the endpoint was away four times the TTL")
    checks.require(sum(not request.ok for request in sink.requests()) > BATCH // 10, "the sink did not fail its share")
    late = [letter for letter in letters if letter.attempts and not any(
        key in letter.headers for key in ("posthorn-last-status", "posthorn-last-error"))]
    checks.require(not late, f"{len(late)} dead letters of attempted messages do not say how the last attempt ended")
    checks.never_above(test.rates, test.labels("billing"))
    checks.never_above_at_sink(test.rates, sink.per_second(), workers=3, skew=sink.skew)
    return topic, sink, produced, letters


def unanswered(sink):
    """Names the requests whose answer cannot have left, because the sink went away while it slept over it."""
    return lambda request: any(start - LONGEST_ANSWER - 0.3 <= request.time <= start + 1.0 for start, _ in sink.away)


def run(test):
    _, sink, produced, letters = run_with(test, while_away=lambda: None)
    checks.everything_finished(produced, sink.requests(), letters)
    checks.finished_once(sink.requests(), letters, excused=unanswered(sink))
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
