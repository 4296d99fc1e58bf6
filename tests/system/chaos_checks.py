"""The checker of a run with faults: it knows what was produced, what the sink logged, what the dead-letter topic holds, and when
which fault was in force. It asks no worker. chaos_checks_test.py plants a breach of each promise.

Words: a *finish* of a message is an answered 2xx at the sink or a dead letter; a *repeat* is each finish after its first.
"""

import bisect
import collections
import dataclasses

from checks import require

COMMIT_LAG = 3.0  # seconds a finish may be older than a crash and yet not stored: a commit each second, and its way on a busy machine


@dataclasses.dataclass(frozen=True)
class Policy:
    """What a subscription promises."""
    name: str
    topic: str
    ordering: str = "none"
    ttl: float = 3600.0
    ttl_from: str = "read"
    timeout: float = 1.0


@dataclasses.dataclass(frozen=True)
class Fault:
    """`kind`: kill, pause (SIGSTOP to SIGCONT), kafka (a broker is away), away (the sink of `who` is)."""
    kind: str
    who: str
    start: float
    end: float


class Evidence:
    """What is known of one subscription. `records`: those of its topic; `requests` and `letters`: its own alone; `parked`: (message,
    when) as the retry topic has it."""

    def __init__(self, policy, records, requests, letters, faults, skew=lambda second: 0.1, parked=()):
        self.policy, self.faults, self.skew = policy, faults, skew
        self.parked = collections.defaultdict(list)
        for message, time in parked:
            self.parked[message].append(time)
        self.records = sorted(records, key=lambda record: (record.partition, record.offset))
        self.requests = sorted((request for request in requests if request.subscription == policy.name), key=lambda request: request.time)
        self.letters = [letter for letter in letters if letter.subscription == policy.name]
        self.by_message = collections.defaultdict(list)
        for request in self.requests:
            self.by_message[request.message].append(request)

    @staticmethod
    def id(record):
        return f"{record.topic}-{record.partition}-{record.offset}"

    def of(self, kind):
        return [fault for fault in self.faults if fault.kind == kind]

    def some(self, found, text):
        require(not found, f"{self.policy.name}: {len(found)} {text}: " + "; ".join(found[:5]))


def nothing_lost(evidence):
    produced = {evidence.id(record) for record in evidence.records}
    finished = {request.message for request in evidence.requests if request.ok} | {letter.message for letter in evidence.letters}
    evidence.some(sorted(produced - finished), f"of {len(produced)} messages neither delivered nor dead-lettered")
    known = produced | {request.message for request in evidence.requests}
    evidence.some(sorted((finished | known) - produced), "messages nobody produced")


def in_order(evidence):
    """No attempt of a message before the earlier ones of its key (or of its partition) are finished. Of one that became a dead
    letter it is not known when, and what is repeated after a crash may come at any time."""
    if evidence.policy.ordering == "none":
        return
    letters = {letter.message for letter in evidence.letters}
    latest = {}  # line -> (when its latest message was finished, which)
    wrong = []
    for record in evidence.records:
        if evidence.policy.ordering == "key" and record.key is None:
            continue
        line = (record.partition, record.key if evidence.policy.ordering == "key" else None)
        message = evidence.id(record)
        requests = evidence.by_message.get(message, [])
        if requests and line in latest and requests[0].time < latest[line][0]:
            wrong.append(f"{message} tried {latest[line][0] - requests[0].time:.3f} s before {latest[line][1]} was delivered")
        first = next((request.time for request in requests if request.ok), None)
        if first is not None and message not in letters and first >= latest.get(line, (first,))[0]:
            latest[line] = (first, message)
    evidence.some(wrong, f"attempts out of the order by {evidence.policy.ordering}")


def none_after_its_ttl(evidence, slack=0.5, most_in_flight=64):
    """No attempt reaches the sink after the message's TTL. With `ttl_from: read` that starts with attempt 1, at the earliest one
    known; a count that starts anew is a state lost in a crash and must have one, also when the sink was away for its attempt 1.
    Requests on their way while their worker was paused arrive when it goes on: so many at most."""
    policy = evidence.policy
    published = {evidence.id(record): record.time for record in evidence.records}
    late, anew, after_pause = [], [], 0
    for message, requests in evidence.by_message.items():
        origin = published.get(message) if policy.ttl_from == "published" else requests[0].time
        previous = None
        for request in requests:
            if policy.ttl_from == "read" and previous and request.attempt == 1:
                if not (request.ok and previous.ok) and explain(evidence, previous.time, request.time) is None:
                    anew.append(f"{message}: attempt {previous.attempt}, then 1, {request.time - previous.time:.1f} s later")
                origin = request.time
            elif policy.ttl_from == "read" and previous and explain(evidence, origin, request.time, message):
                origin = request.time  # not stored when it happened: whoever went on knew nothing of it
            previous = request
            over = request.time - (origin or request.time) - policy.ttl
            if over <= slack + evidence.skew(request.second):
                continue
            if any(fault.end <= request.time <= fault.end + 1.5 for fault in evidence.of("pause")):
                after_pause += 1
            else:
                late.append(f"{message}: attempt {request.attempt} came {over:.2f} s too late")
    evidence.some(late, "attempts after the TTL")
    evidence.some(anew, "messages whose attempts were forgotten without a crash")
    require(after_pause <= most_in_flight * max(1, len(evidence.of("pause"))),
            f"{policy.name}: {after_pause} attempts after the TTL when paused workers went on, {most_in_flight} could be on their way")


def explain(evidence, first, again, message=None):
    """Why something done at `first` may have been forgotten and done again at `again`; None when no fault tells. Of a message that
    is parked the parking may have been forgotten: then it goes on twice, in its own partition and in the retry topic."""
    reason = explain_one(evidence, first, again)
    if reason is None and any(explain_one(evidence, parked, again) for parked in evidence.parked.get(message, ())):
        return "parked twice"
    return reason


def explain_one(evidence, first, again):
    for kind, name in (("kill", "crash"), ("pause", "zombie"), ("kafka", "kafka")):
        for fault in evidence.of(kind):
            # A cluster that lacks a broker stores late; a pause shows as it begins, what was on its way arrives as it ends.
            after = {"kill": 0.0, "pause": 1.5, "kafka": COMMIT_LAG + 5.0}[kind]
            if fault.start - COMMIT_LAG <= first <= fault.end + after and again >= fault.start:
                return name
    return None


def is_unanswered(evidence, request):
    """Whether the worker may not have got this answer: too late, or the sink went away before it had gone out."""
    if request.wait > evidence.policy.timeout - 0.3:
        return True
    return any(request.time - 0.3 <= fault.start <= request.time + request.wait + 0.5
               for fault in evidence.of("away") if fault.who == evidence.policy.name)


def repeats(evidence):
    """Why -> how many finishes were repeats. Errors: one that no fault explains."""
    finishes = collections.defaultdict(list)
    for request in evidence.requests:
        if request.ok:
            finishes[request.message].append((request.time, is_unanswered(evidence, request), f"delivered (attempt {request.attempt})"))
    for letter in evidence.letters:
        finishes[letter.message].append((letter.time, False, f"dead letter ({letter.reason})"))
    why, unknown = collections.Counter(), []
    for message, times in finishes.items():
        times.sort()
        for (first, unanswered, what), (again, _, what_again) in zip(times, times[1:]):
            reason = "unanswered" if unanswered else explain(evidence, first, again, message) or "unknown"
            why[reason] += 1
            if reason == "unknown":
                unknown.append(f"{message}: {what} at {first:.3f}, {what_again} {again - first:.3f} s later")
    evidence.some(unknown, "finished again for no known reason")
    return why


def seconds_beside_pauses(evidence, most_in_flight):
    """Requests by second of the sink; what a paused worker had on its way when it went on is taken out where it arrived."""
    times = [request.time for request in evidence.requests]
    seconds = collections.Counter(request.second for request in evidence.requests)
    for fault in evidence.of("pause"):
        arrived = bisect.bisect_right(times, fault.end + 1.5) - bisect.bisect_left(times, fault.end)
        spare = min(most_in_flight, arrived)
        for second in (int(fault.end), int(fault.end) + 1):
            taken = min(spare, seconds.get(second, 0))
            seconds[second] -= taken
            spare -= taken
    return seconds


def check(evidence):
    """Every promise but the rate; returns the repeats by reason. The first broken one is raised."""
    nothing_lost(evidence)
    in_order(evidence)
    none_after_its_ttl(evidence)
    return repeats(evidence)
