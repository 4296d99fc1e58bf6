"""What the scenarios assert, as functions over plain data; checks_test.py plants a violation of each.

A *label* is a wall-clock second. Attempts are counted by label as the workers label them (exact), and by second as the sink
received them (within the skew bound: a permit's request arrives a little after its window).
"""

import collections
import math


class Failed(AssertionError):
    """A promise was not kept; the text says which, where and by how much."""


def require(holds, text):
    if not holds:
        raise Failed(text)


def tells_no_secret(where, text, secrets, forms=()):
    """None of these words stands in it, and nothing of these forms (compiled regular expressions)."""
    found = [secret for secret in secrets if secret in text] + [form.pattern for form in forms if form.search(text)]
    require(not found, f"{where} tells a secret: {', '.join(found)}")


class Rates:
    """Which max-rate was in force when, as the test set it."""

    SPREAD = 0.3  # seconds a change may take from the file to the last worker; such labels are judged by the larger rate

    def __init__(self):
        self.changes = []  # (wall time, rate)

    def set(self, at, rate):
        self.changes.append((at, rate))

    def during(self, start, end):
        """Every rate that some worker may have had in force in [start, end)."""
        rates = []
        for index, (at, rate) in enumerate(self.changes):
            until = self.changes[index + 1][0] + self.SPREAD if index + 1 < len(self.changes) else math.inf
            if at < end and until > start:
                rates.append(rate)
        return rates

    def most(self, start, end):
        return max(self.during(start, end), default=0)

    def is_steady(self, label):
        """Whether one rate alone was in force in this label and the one before."""
        return len(self.during(label - 1, label + 1)) == 1


def above(rates, labels):
    """label -> (attempts, max-rate) of those that hold more than their max-rate allows."""
    most = {label: rates.most(label, label + 1) for label in sorted(labels)}
    return {label: (labels[label], allowed) for label, allowed in most.items() if labels[label] > allowed}


def never_above(rates, labels):
    """No label holds more attempts than its max-rate allows."""
    found = above(rates, labels)
    require(not found, "above the max-rate, as the workers label their attempts: "
            + ", ".join(f"{used} of {allowed} in {label}" for label, (used, allowed) in list(found.items())[:10]))


SKEW = 0.1  # seconds between permit and arrival that always count as possible, as max_clock_offset does


def skew_bound(rate, workers, skew=SKEW):
    """The most one second of the receiver may hold: what spills over one boundary within `skew` seconds, and two per worker."""
    return rate + 2 * workers + math.ceil(rate * skew)


def above_at_sink(rates, per_second, workers, skew=lambda second: SKEW):
    """second -> (requests, bound) of those that hold more than the skew bound; `skew(second)` is how late requests may have been read
    around it."""
    found = {}
    for second, count in sorted(per_second.items()):
        # A request of the second before may arrive in this one.
        late = skew(second)
        allowed = skew_bound(rates.most(second - late, second + 1), workers, late)
        if count > allowed:
            found[second] = (count, allowed)
    return found


def never_above_at_sink(rates, per_second, workers, skew=lambda second: SKEW):
    """No second at the sink holds more than the skew bound."""
    found = above_at_sink(rates, per_second, workers, skew)
    require(not found, "more than the skew bound at the sink: "
            + ", ".join(f"{count} (bound {allowed}) in {second}" for second, (count, allowed) in list(found.items())[:10]))


def used_in_full(labels, rate, first, last, share=0.99):
    """Every label from `first` to `last`, both included, holds at least `share` of `rate`."""
    require(last >= first, f"no label to look at between {first} and {last}")
    short = {label: labels.get(label, 0) for label in range(first, last + 1) if labels.get(label, 0) < rate * share}
    require(not short, f"less than {share:.0%} of {rate} in {len(short)} of {last - first + 1} labels: "
            + ", ".join(f"{used} in {label}" for label, used in list(short.items())[:10]))


def exactly(labels, count, first, last):
    """Every label from `first` to `last` holds exactly `count`."""
    wrong = {label: labels.get(label, 0) for label in range(first, last + 1) if labels.get(label, 0) != count}
    require(last >= first and not wrong, f"not exactly {count} in: " + ", ".join(f"{label}: {used}" for label, used in list(wrong.items())[:10]))


def per_second(requests):
    return collections.Counter(request.second for request in requests)


def everything_finished(produced, requests, dead_letters):
    """Every produced message was delivered or is a dead letter."""
    delivered = {request.message for request in requests if request.ok}
    dead = {letter.message for letter in dead_letters}
    lost = produced - delivered - dead
    require(not lost, f"{len(lost)} of {len(produced)} messages neither delivered nor dead-lettered: {sorted(lost)[:5]}")
    strange = (delivered | dead) - produced
    require(not strange, f"messages nobody produced: {sorted(strange)[:5]}")


def finished_once(requests, dead_letters, excused=lambda request: False):
    """No message was delivered twice, dead-lettered twice, or both. A first delivery that `excused` names does not count: its
    answer cannot have reached the worker."""
    finished = collections.Counter()
    times = collections.defaultdict(list)
    for request in requests:
        if request.ok and not excused(request):
            finished[request.message] += 1
            times[request.message].append(f"delivered {request.time:.3f} attempt {request.attempt}")
    for letter in dead_letters:
        finished[letter.message] += 1
        times[letter.message].append(f"dead letter {letter.reason}")
    twice = [message for message, count in finished.items() if count > 1]
    require(not twice, f"{len(twice)} messages finished twice: "
            + "; ".join(f"{message}: {', '.join(times[message])}" for message in sorted(twice)[:5]))


def reasons(dead_letters, allowed):
    wrong = collections.Counter(letter.reason for letter in dead_letters if letter.reason not in allowed)
    require(not wrong, f"dead letters with an unexpected reason: {dict(wrong)}")


def not_back_for(seconds, history):
    """In successive readings (time, {key: committed offset}) none is for longer than that below what it was, or gone."""
    highest, below_since = {}, {}
    for at, reading in history:
        for key, offset in highest.items():
            if reading.get(key, -1) >= offset:
                below_since.pop(key, None)
                continue
            since = below_since.setdefault(key, at)
            require(at - since <= seconds, f"the committed offset of {key} is {reading.get(key)} for {at - since:.1f} s, it was {offset}")
        highest.update({key: max(offset, highest.get(key, offset)) for key, offset in reading.items()})
