"""The checker itself, with fabricated logs: a kept promise passes, a planted breach of each promise is reported."""

import types
import unittest

import chaos_checks
from chaos_checks import Evidence, Fault, Policy
from checks import Failed


def record(offset, key="k", partition=0, time=100.0):
    return types.SimpleNamespace(topic="t", partition=partition, offset=offset, time=time, key=key)


def request(offset, time, ok=True, attempt=1, partition=0, wait=0.0, subscription="s"):
    return types.SimpleNamespace(message=f"t-{partition}-{offset}", time=time, second=int(time), ok=ok, attempt=attempt, wait=wait,
                                 reset=False, subscription=subscription)


def letter(offset, time=200.0, reason="expired", subscription="s"):
    return types.SimpleNamespace(message=f"t-0-{offset}", time=time, reason=reason, subscription=subscription)


def evidence(records, requests, letters=(), faults=(), parked=(), **policy):
    return Evidence(Policy("s", "t", **policy), records, requests, letters, list(faults), parked=parked)


class ChaosChecksTest(unittest.TestCase):
    def breach(self, found, text, check=chaos_checks.check):
        with self.assertRaises(Failed) as caught:
            check(found)
        self.assertIn(text, str(caught.exception))

    def kept(self, found, repeats=None, check=chaos_checks.check):
        self.assertEqual(dict(check(found)), repeats or {})

    def test_a_calm_run(self):
        self.kept(evidence([record(0), record(1)], [request(0, 101, ok=False), request(0, 102, attempt=2), request(1, 103)], ordering="key"))

    def test_a_lost_message(self):
        self.breach(evidence([record(0), record(1)], [request(0, 101)]), "neither delivered")
        self.breach(evidence([record(0)], [request(0, 101, ok=False)]), "neither delivered")
        self.kept(evidence([record(0), record(1)], [request(0, 101)], [letter(1)]))

    def test_another_subscriptions_delivery_counts_for_nothing(self):
        self.breach(evidence([record(0)], [request(0, 101, subscription="other")]), "neither delivered")
        self.breach(evidence([record(0)], [], [letter(0, subscription="other")]), "neither delivered")

    def test_a_message_nobody_produced(self):
        self.breach(evidence([record(0)], [request(0, 101), request(7, 101)]), "nobody produced")
        self.breach(evidence([record(0)], [request(0, 101), request(7, 101, ok=False)]), "nobody produced")

    def test_a_message_parked_just_before_a_crash_may_go_on_twice(self):
        kill = Fault("kill", "w-0", 105.0, 105.5)
        twice = [request(0, 120, attempt=4), request(0, 130, attempt=2)]
        self.kept(evidence([record(0)], twice, faults=[kill], parked=[("t-0-0", 104.0)]), {"parked twice": 1})
        self.breach(evidence([record(0)], twice, faults=[kill], parked=[("t-0-0", 90.0)]), "no known reason")
        self.breach(evidence([record(0)], twice, faults=[kill], parked=[("t-0-1", 104.0)]), "no known reason")
        self.breach(evidence([record(0)], twice, parked=[("t-0-0", 104.0)]), "no known reason")

    def test_the_order_of_a_key(self):
        records = [record(0), record(1), record(2, key="other"), record(3, key=None), record(4, key=None)]
        fine = [request(2, 101), request(4, 101), request(3, 102), request(0, 103), request(1, 104)]
        self.kept(evidence(records, fine, ordering="key"))
        self.breach(evidence(records, fine, ordering="partition"), "order by partition")
        swapped = fine[:3] + [request(1, 103), request(0, 104)]
        self.breach(evidence(records, swapped, ordering="key"), "order by key")
        self.kept(evidence(records, swapped, ordering="none"))

    def test_an_attempt_before_the_earlier_one_is_delivered(self):
        tried = [request(0, 101, ok=False), request(1, 102, ok=False), request(0, 103, attempt=2), request(1, 104, attempt=2)]
        self.breach(evidence([record(0), record(1)], tried, ordering="key"), "order by key")

    def test_order_over_three(self):
        # The one in the middle came in time; the last overtook the first.
        tried = [request(2, 101), request(0, 102), request(1, 103)]
        self.breach(evidence([record(0), record(1), record(2)], tried, ordering="key"), "order by key")

    def test_a_repeat_after_a_crash_may_come_later(self):
        crash = [Fault("kill", "w", 102.5, 102.5)]
        requests = [request(0, 101), request(1, 102), request(0, 104), request(1, 105)]
        self.kept(evidence([record(0), record(1)], requests, faults=crash, ordering="key"), {"crash": 2})

    def test_partitions_have_an_order_of_their_own(self):
        self.kept(evidence([record(0), record(0, partition=1)], [request(0, 101, partition=1), request(0, 102)], ordering="partition"))

    def test_an_attempt_after_the_ttl(self):
        late = [request(0, 101, ok=False), request(0, 107, attempt=2)]
        self.kept(evidence([record(0)], late))
        self.breach(evidence([record(0)], late, ttl=5.0), "after the TTL")
        self.breach(evidence([record(0)], [request(0, 106.7)], ttl=5.0, ttl_from="published"), "after the TTL")
        self.kept(evidence([record(0)], [request(0, 105.3)], ttl=5.0, ttl_from="published"))
        self.kept(evidence([record(0)], [request(0, 106.7)], ttl=5.0))

    def test_a_failed_attempt_after_the_ttl_is_one_too(self):
        late = [request(0, 101, ok=False), request(0, 107, ok=False, attempt=2)]
        self.breach(evidence([record(0)], late, [letter(0)], ttl=5.0), "after the TTL")

    def test_a_ttl_that_starts_anew_needs_a_crash(self):
        anew = [request(0, 101, ok=False), request(0, 104, ok=False), request(0, 108, attempt=2)]
        self.breach(evidence([record(0)], anew, ttl=5.0), "forgotten without a crash")
        self.kept(evidence([record(0)], anew, ttl=5.0, faults=[Fault("kill", "w", 102, 102)]))
        unseen = [request(0, 101, ok=False), request(0, 108, attempt=5)]
        self.kept(evidence([record(0)], unseen, ttl=5.0, faults=[Fault("kill", "w", 102, 102)]))
        self.breach(evidence([record(0)], unseen, ttl=5.0, faults=[Fault("kill", "w", 105, 105)]), "after the TTL")
        # The crash excuses a new start, not what is too late even then.
        self.breach(evidence([record(0)], anew + [request(0, 110, attempt=3)], ttl=5.0, faults=[Fault("kill", "w", 102, 102)]),
                    "after the TTL")

    def test_what_a_paused_worker_had_on_its_way(self):
        late = [request(0, 95, ok=False), request(0, 109, attempt=2)]
        self.kept(evidence([record(0)], late, ttl=5.0, faults=[Fault("pause", "w", 102, 108.5)]))
        self.breach(evidence([record(0)], late, ttl=5.0, faults=[Fault("pause", "w", 102, 105)]), "after the TTL")
        many = [request(offset, at, ok=at > 105, attempt=1 + (at > 105)) for offset in range(70) for at in (95, 109)]
        self.breach(evidence([record(offset) for offset in range(70)], many, ttl=5.0, faults=[Fault("pause", "w", 102, 108.5)]),
                    "could be on their way")

    def test_a_repeat_without_a_reason(self):
        again = [request(0, 101), request(0, 110)]
        self.breach(evidence([record(0)], again), "for no known reason")
        self.breach(evidence([record(0)], [request(0, 101)], [letter(0)]), "for no known reason")
        self.breach(evidence([record(0)], [], [letter(0, 101), letter(0, 110)]), "for no known reason")

    def test_faults_explain_only_what_they_can(self):
        again = [request(0, 101), request(0, 110)]
        for fault, reason in ((Fault("kill", "w", 102, 102), "crash"), (Fault("pause", "w", 102, 109), "zombie"),
                              (Fault("pause", "w", 99.8, 103), "zombie"), (Fault("kafka", "1", 95, 99), "kafka")):
            self.kept(evidence([record(0)], again, faults=[fault]), {reason: 1})
        for fault in (Fault("kill", "w", 99, 99),     # before it was delivered
                      Fault("kill", "w", 105, 105),   # long after: it was stored
                      Fault("kill", "w", 111, 111),   # after the repeat
                      Fault("away", "other", 101.1, 102), Fault("kafka", "1", 80, 90)):
            self.breach(evidence([record(0)], again, faults=[fault]), "for no known reason")

    def test_an_answer_that_did_not_arrive(self):
        self.kept(evidence([record(0)], [request(0, 101, wait=30.0), request(0, 103)]), {"unanswered": 1})
        self.breach(evidence([record(0)], [request(0, 101, wait=0.5), request(0, 103)]), "for no known reason")
        self.kept(evidence([record(0)], [request(0, 101), request(0, 103)], faults=[Fault("away", "s", 101.1, 102)]), {"unanswered": 1})

    def test_each_repeat_is_counted(self):
        requests = [request(0, 101), request(0, 104), request(0, 105)]
        faults = [Fault("kill", "w", 102, 102), Fault("pause", "w", 104.5, 112)]
        self.assertEqual(sum(chaos_checks.repeats(evidence([record(0)], requests, faults=faults)).values()), 2)

    def test_seconds_keep_what_a_pause_cannot_excuse(self):
        found = evidence([], [request(offset, 109.2) for offset in range(100)], faults=[Fault("pause", "w", 102, 109)])
        self.assertEqual(chaos_checks.seconds_beside_pauses(found, 64)[109], 36)
        found = evidence([], [request(offset, 112.2) for offset in range(100)], faults=[Fault("pause", "w", 102, 109)])
        self.assertEqual(chaos_checks.seconds_beside_pauses(found, 64)[112], 100)


if __name__ == "__main__":
    unittest.main()
