"""What the workers of a deploy did in each second, what came of it in numbers, and how it is drawn; deploy_replay.py fills it in.

Words: *share*: a worker's permits of the running second (its partial limit). *lag*: messages in the worker's partitions that are not
finished; those of a worker that is away stay with it until another one has its partitions.
"""

import collections
import dataclasses
import math

import charts

ON_THEIR_WAY = 0.1  # seconds of the max-rate: no more lag than that is what just came, or is being sent


@dataclasses.dataclass
class Cell:
    """One worker in one second. `share`, `lag` and `running` are of its end; a share of None: the worker could not be asked."""
    sent: int = 0
    share: int = None
    lag: int = 0
    running: bool = False  # it knew of partitions of its own


class Lags:
    """Whose lag is how large: ends of the partitions less what their owners said is finished."""

    def __init__(self):
        self.owner, self.finished = {}, {}

    def take(self, worker, partitions):
        """`partitions`: as /subscriptions shows them."""
        for row in partitions:
            number = row["partition"]
            self.owner[number] = worker
            self.finished[number] = max(row["next"], self.finished.get(number, 0))

    def of(self, ends):
        lags = collections.Counter()
        for number, end in ends.items():
            if number in self.owner:
                lags[self.owner[number]] += max(0, end - self.finished[number])
        return lags


class Course:
    """`first`: the label of second 0; `cells`: of each second, one for each worker; `away`: (worker, from, to) in seconds."""

    def __init__(self, workers, max_rate, first, cells, away):
        self.workers, self.max_rate, self.first, self.cells, self.away = workers, max_rate, first, cells, away

    @property
    def seconds(self):
        return len(self.cells)

    @property
    def much(self):
        """More lag than this waits for permits."""
        return max(1, math.ceil(self.max_rate * ON_THEIR_WAY))

    def total(self, second, of, only=lambda cell: True):
        return sum(of(cell) or 0 for cell in self.cells[second].values() if only(cell))

    def sent(self, second):
        return self.total(second, lambda cell: cell.sent)

    def lag(self, second):
        return self.total(second, lambda cell: cell.lag)

    def waiting(self, second):
        """Of the lag, what waits at workers that run."""
        return self.total(second, lambda cell: cell.lag, lambda cell: cell.running)


def course_of(workers, max_rate, attempts, samples, away):
    """`attempts`: worker -> label -> attempts; `samples`: label -> worker -> Cell without `sent`; `away` in wall time. A label that
    was not sampled has what the one before had."""
    first, last = min(samples), max(samples)
    cells, sample = [], samples[first]
    for label in range(first, last + 1):
        sample = samples.get(label, sample)
        cells.append({worker: dataclasses.replace(sample.get(worker, Cell()), sent=attempts.get(worker, {}).get(label, 0)) for worker in workers})
    return Course(workers, max_rate, first, cells, [(worker, start - first, end - first) for worker, start, end in away])


def summarise(course):
    """In words that `posthorn simulate` uses, too."""
    above = [second for second in range(course.seconds) if course.sent(second) > course.max_rate]
    with_lag = [second for second in range(course.seconds) if course.waiting(second) > course.much]
    used = sum(course.sent(second) for second in with_lag)
    drained = course.seconds  # the first second from whose end on nothing waits
    while drained and course.lag(drained - 1) <= course.much:
        drained -= 1
    back = max((end for _, _, end in course.away), default=0)
    return {
        "seconds": course.seconds,
        "seconds_above_total": len(above),
        "sent": sum(course.sent(second) for second in range(course.seconds)),
        "seconds_with_lag": len(with_lag),
        "use_of_the_total_while_lag": round(used / (len(with_lag) * course.max_rate), 4) if with_lag else None,
        "seconds_to_drain_after_the_last_restart": max(0, math.ceil(drained + 1 - back)) if drained < course.seconds else None,
        "most_lag": max((course.lag(second) for second in range(course.seconds)), default=0),
    }


def to_csv(course):
    """One line for each label and worker, and one for all of them: `*`, with the max-rate as its partial limit. Seconds count from 0."""
    lines = ["label,second,worker,sent,partial_limit,lag"]
    for second, cells in enumerate(course.cells):
        time = f"{course.first + second},{second}"
        for worker, cell in cells.items():
            lines.append(f"{time},{worker},{cell.sent},{'' if cell.share is None else cell.share},{cell.lag}")
        lines.append(f"{time},*,{course.sent(second)},{course.max_rate},{course.lag(second)}")
    return "\n".join(lines) + "\n"


def draw(course, title):
    colours = dict(zip(course.workers, charts.COLOURS))

    def per_worker(of):
        return [charts.Line(worker, colours[worker], [of(cells[worker]) for cells in course.cells]) for worker in course.workers]

    def together(of):
        return charts.Line("all together", charts.TOTAL, [course.total(second, of) for second in range(course.seconds)])

    limit = charts.Line("max-rate", charts.LIMIT, [course.max_rate] * course.seconds, dashed=True)
    panels = [(text, [*per_worker(of), together(of), *more]) for text, of, more in (
        ("Output rate: attempts per second", lambda cell: cell.sent, [limit]),
        ("Partial limit: permits of each second", lambda cell: cell.share, [limit]),
        ("Lag: messages that are not finished", lambda cell: cell.lag, []))]
    spans = [charts.Span(start, end, colours[worker]) for worker, start, end in course.away]
    return charts.Picture(title, panels, course.seconds, spans, "the worker is away").draw()
