"""The checks themselves: each lets a kept promise pass and reports a planted breach."""

import re
import types
import unittest

import checks
import told_secrets
import what_failed


def request(message, ok=True, second=100, attempt=1):
    return types.SimpleNamespace(message=message, ok=ok, second=second, time=second + 0.5, attempt=attempt)


def letter(message, reason="expired"):
    return types.SimpleNamespace(message=message, reason=reason)


class ChecksTest(unittest.TestCase):
    def rates(self, *changes):
        rates = checks.Rates()
        for at, rate in changes:
            rates.set(at, rate)
        return rates

    def test_one_attempt_above_the_rate_is_reported(self):
        rates = self.rates((100.0, 20))
        checks.never_above(rates, {101: 20, 102: 19})
        with self.assertRaises(checks.Failed):
            checks.never_above(rates, {101: 20, 102: 21})

    def test_a_secret_that_is_told_is_reported(self):
        checks.tells_no_secret("a log", "authorization: ***", {"planted"})
        with self.assertRaises(checks.Failed):
            checks.tells_no_secret("a log", "authorization: Bearer planted\n", {"planted"})
        form = re.compile(r"\b[a-z]{4}\.\d")
        checks.tells_no_secret("a log", "token abcde.5, abcd. 5\n", {"planted"}, {form})
        with self.assertRaises(checks.Failed):
            checks.tells_no_secret("a log", "token abcd.5\n", {"planted"}, {form})

    def test_a_secret_in_the_output_of_a_run_is_reported(self):
        self.assertEqual(told_secrets.told("token: ********\nplanted\n"), [])
        self.assertEqual(told_secrets.told("one\npassword=planted-password\nhunter2"), [(2, "password=planted-password"), (3, "hunter2")])

    def test_a_failure_in_the_middle_of_a_long_output_is_said_in_short(self):
        noise = [f"[ RUN      ] Room.Of{number}\n[       OK ] Room.Of{number} (1 ms)" for number in range(1000)]
        failure = ["[ RUN      ] Room.Keeps", "a log's line", "room_test.cc:5: Failure", "Expected: one", "  Actual: two",
                   "[  FAILED  ] Room.Keeps (9 ms)"]
        said = what_failed.essence("\n".join([*noise, *failure, *noise, "1 FAILED TEST"]), 1000)
        self.assertEqual(said[:4], failure[2:])
        self.assertEqual(said[-1], "1 FAILED TEST")
        self.assertLess(sum(map(len, said)), 1000)

    def test_a_failed_scenario_is_said_with_what_it_did(self):
        said = what_failed.essence("\n".join(["[ 1.0s] begins", "FAILED: too many", *["{a log's line}"] * 50]), 1000)
        self.assertEqual(said[:2], ["[ 1.0s] begins", "FAILED: too many"])

    def test_of_too_many_failures_the_first_are_said_and_the_end(self):
        said = what_failed.essence("\n".join(["a_test.cc:1: Failure", "x" * 500] * 100 + ["the end"]), 1000)
        self.assertEqual(said[:2], ["a_test.cc:1: Failure", "x" * what_failed.LONGEST_LINE])
        self.assertEqual(said[-1], "the end")
        self.assertLess(sum(map(len, said)), 1000)

    def test_the_larger_rate_counts_only_in_the_label_of_the_change(self):
        rates = self.rates((100.0, 20), (105.2, 5))
        checks.never_above(rates, {105: 20, 106: 5})
        with self.assertRaises(checks.Failed):
            checks.never_above(rates, {106: 6})
        self.assertTrue(rates.is_steady(107))
        self.assertFalse(rates.is_steady(106))

    def test_attempts_before_any_rate_are_reported(self):
        with self.assertRaises(checks.Failed):
            checks.never_above(self.rates((100.0, 20)), {98: 1})

    def test_the_sink_may_see_the_skew_and_no_more(self):
        rates = self.rates((100.0, 1000))
        checks.never_above_at_sink(rates, {101: 1106}, workers=3)
        with self.assertRaises(checks.Failed):
            checks.never_above_at_sink(rates, {101: 1107}, workers=3)
        with self.assertRaises(checks.Failed):  # also after a second that lacks as many
            checks.never_above_at_sink(rates, {101: 850, 102: 1107}, workers=3)

    def test_an_empty_second_is_not_full_use(self):
        checks.used_in_full({1: 100, 2: 99}, 100, 1, 2)
        with self.assertRaises(checks.Failed):
            checks.used_in_full({1: 100, 3: 100}, 100, 1, 3)
        with self.assertRaises(checks.Failed):
            checks.used_in_full({}, 100, 5, 4)

    def test_exactly_one(self):
        checks.exactly({1: 1, 2: 1}, 1, 1, 2)
        for labels in ({1: 1, 2: 0}, {1: 1, 2: 2}):
            with self.assertRaises(checks.Failed):
                checks.exactly(labels, 1, 1, 2)

    def test_a_lost_message_is_reported(self):
        checks.everything_finished({"a", "b"}, [request("a")], [letter("b")])
        for requests in ([], [request("a", ok=False)]):
            with self.assertRaises(checks.Failed):
                checks.everything_finished({"a", "b"}, requests, [letter("b")])
        with self.assertRaises(checks.Failed):
            checks.everything_finished({"a"}, [request("a"), request("z")], [])

    def test_a_message_finished_twice_is_reported(self):
        checks.finished_once([request("a", ok=False), request("a")], [letter("b")])
        for requests, letters in (([request("a"), request("a")], []), ([request("a")], [letter("a")]), ([], [letter("a")] * 2)):
            with self.assertRaises(checks.Failed):
                checks.finished_once(requests, letters)
        checks.finished_once([request("a", second=1), request("a", second=2)], [], excused=lambda r: r.second == 1)

    def test_a_wrong_reason_is_reported(self):
        checks.reasons([letter("a")], {"expired"})
        with self.assertRaises(checks.Failed):
            checks.reasons([letter("a", "rejected")], {"expired"})

    def test_an_offset_that_falls_or_vanishes_is_reported(self):
        checks.not_back_for(0, enumerate([{1: 5}, {1: 5, 2: 0}, {1: 7, 2: 3}]))
        for history in ([{1: 5}, {1: 4}], [{1: 5}, {}], [{1: 5}, {1: 9}, {1: 8}]):
            checks.not_back_for(1, enumerate([*history, {1: 9}]))
            with self.assertRaises(checks.Failed):
                checks.not_back_for(1, enumerate([*history, history[-1], history[-1]]))


if __name__ == "__main__":
    unittest.main()
