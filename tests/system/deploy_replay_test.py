"""The pure parts of the deploy replay: whose lag it is, the summary, the table, the picture."""

import contextlib
import io
import unittest
import xml.etree.ElementTree

import charts
import deploy_replay
from deploy_course import Cell, Course, Lags, course_of, draw, summarise, to_csv

WORKERS = ["worker-0", "worker-1"]


def rows(**next_of):
    return [{"partition": int(name[1:]), "next": finished} for name, finished in next_of.items()]


class LagsTest(unittest.TestCase):
    def test_the_lag_of_a_worker_that_is_away_stays_with_it_until_another_has_its_partitions(self):
        lags = Lags()
        lags.take("worker-0", rows(p0=10, p1=10))
        lags.take("worker-1", rows(p2=10))
        self.assertEqual(lags.of({0: 15, 1: 10, 2: 12, 3: 99}), {"worker-0": 5, "worker-1": 2})
        lags.take("worker-1", rows(p2=20))
        self.assertEqual(lags.of({0: 25, 1: 15, 2: 20}), {"worker-0": 20, "worker-1": 0})
        lags.take("worker-1", rows(p0=24, p1=15))
        self.assertEqual(lags.of({0: 25, 1: 15, 2: 20}), {"worker-1": 1})

    def test_an_end_read_before_and_a_position_not_known_yet_are_no_lag(self):
        lags = Lags()
        lags.take("worker-0", rows(p0=30))
        lags.take("worker-0", rows(p0=-1))
        self.assertEqual(lags.of({0: 28}), {"worker-0": 0})


class CourseTest(unittest.TestCase):
    def course(self, *seconds, away=(("worker-1", 1.0, 3.5),)):
        """`seconds`: (sent, lag, running) of each worker."""
        cells = [{name: Cell(sent=sent, share=500 if running else None, lag=lag, running=running)
                  for name, (sent, lag, running) in zip(WORKERS, second)} for second in seconds]
        return Course(WORKERS, 1000, 1700000000, cells, list(away))

    def test_lag_of_a_worker_that_is_away_counts_for_draining_not_for_use(self):
        summary = summarise(self.course(
            [(400, 5, True), (400, 5, True)], [(400, 5, True), (0, 400, False)], [(400, 5, True), (0, 800, False)],
            [(400, 5, True), (100, 900, True)], [(400, 5, True), (560, 500, True)], [(400, 5, True), (500, 8, True)]))
        self.assertEqual(summary["seconds_with_lag"], 2)
        self.assertEqual(summary["use_of_the_total_while_lag"], round((500 + 960) / 2000, 4))
        self.assertEqual(summary["seconds_to_drain_after_the_last_restart"], 3)  # from 3.5 to the end of second 5, rounded up
        self.assertEqual(summary["seconds_above_total"], 0)
        self.assertEqual(summary["most_lag"], 905)

    def test_one_attempt_above_the_limit_is_counted(self):
        summary = summarise(self.course([(500, 0, True), (500, 0, True)], [(501, 0, True), (500, 0, True)]))
        self.assertEqual(summary["seconds_above_total"], 1)

    def test_what_is_on_its_way_is_no_lag(self):
        summary = summarise(self.course([(400, 50, True), (400, 50, True)], [(400, 20, True), (400, 20, True)], away=()))
        self.assertEqual((summary["seconds_with_lag"], summary["use_of_the_total_while_lag"]), (0, None))
        self.assertEqual(summary["seconds_to_drain_after_the_last_restart"], 1)

    def test_lag_at_the_end_has_not_drained(self):
        self.assertIsNone(summarise(self.course([(0, 500, True), (0, 500, True)]))["seconds_to_drain_after_the_last_restart"])

    def test_a_second_that_was_not_sampled_has_the_shares_of_the_one_before_and_its_own_attempts(self):
        course = course_of(WORKERS, 1000, {"worker-0": {100: 7, 101: 8, 102: 9}},
                           {100: {"worker-0": Cell(share=3, lag=4, running=True)}, 102: {"worker-0": Cell(share=5)}}, [("worker-1", 100.5, 101.5)])
        self.assertEqual([cells["worker-0"] for cells in course.cells], [Cell(7, 3, 4, True), Cell(8, 3, 4, True), Cell(9, 5)])
        self.assertEqual([cells["worker-1"] for cells in course.cells], [Cell()] * 3)
        self.assertEqual(course.away, [("worker-1", 0.5, 1.5)])

    def test_the_file_has_a_line_for_each_worker_and_one_for_all(self):
        self.assertEqual(to_csv(self.course([(400, 5, True), (0, 7, False)])),
                         "label,second,worker,sent,partial_limit,lag\n"
                         "1700000000,0,worker-0,400,500,5\n1700000000,0,worker-1,0,,7\n1700000000,0,*,400,1000,12\n")


class PictureTest(unittest.TestCase):
    def drawn(self, svg):
        root = xml.etree.ElementTree.fromstring(svg)
        return root, [[tuple(map(float, point.split(","))) for point in line.get("points").split()] for line in root.iterfind(".//{*}polyline")]

    def test_a_line_for_each_worker_the_sum_and_the_limit_and_a_gap_where_nothing_is_known(self):
        cells = [{"worker-0": Cell(300, 500, 10, True), "worker-1": Cell(300, None if second == 1 else 400, 10, True)} for second in range(4)]
        root, lines = self.drawn(draw(Course(WORKERS, 1000, 0, cells, [("worker-1", 1.0, 2.0)]), "shares & <lag>"))
        self.assertEqual(len(lines), 4 + 5 + 3)  # worker-1's partial limit in two pieces; no limit on the lag
        height = float(root.get("viewBox").split()[3])
        for x, y in (point for line in lines for point in line):
            self.assertTrue(charts.LEFT <= x <= charts.WIDTH - charts.RIGHT and charts.TOP <= y <= height, (x, y))
        texts = ["".join(text.itertext()) for text in root.iterfind(".//{*}text")]
        self.assertIn("shares & <lag>", texts)
        self.assertIn("shaded: the worker is away", texts)
        self.assertEqual(sum(text in ("max-rate", "all together", *WORKERS) for text in texts), 4)

    def test_values_are_where_the_axis_says(self):
        _, lines = self.drawn(charts.Picture("", [("", [charts.Line("a", "#000", [0, 500, 1000])])], 3).draw())
        self.assertEqual([y for _, y in lines[0]], [charts.TOP + charts.PANEL, charts.TOP + charts.PANEL / 2, charts.TOP])

    def test_a_sum_a_little_above_the_limit_does_not_halve_the_picture(self):
        _, lines = self.drawn(charts.Picture("", [("", [charts.Line("a", "#000", [0, 1001])])], 2).draw())
        self.assertEqual(lines[0][1][1], charts.TOP - 0.1)  # a thousandth above the top

    def test_axes_end_at_round_numbers(self):
        self.assertEqual([charts.rounded_up(most) for most in (0, 1, 3, 90, 100, 1001, 4500)], [1, 1, 4, 100, 100, 2000, 5000])


class CommandTest(unittest.TestCase):
    def test_messages_fill_what_kcat_reads_at_once(self):
        for first, end in ((0, 1), (995, 1005), (0, 40)):
            text = deploy_replay.Traffic.lines(first, end)
            self.assertEqual(len(text) % deploy_replay.Traffic.BLOCK, 0)
            self.assertEqual([line.split("\t")[0] for line in text.decode().splitlines()], [f"key-{number}" for number in range(first, end)])

    def test_the_table_has_a_column_for_each_run(self):
        summary = {"strategy": "adaptive", "seconds": 60, "seconds_above_total": 0, "seconds_above_at_the_receiver": 0, "seconds_with_lag": 20,
                   "use_of_the_total_while_lag": 0.987, "seconds_to_drain_after_the_last_restart": 7, "most_lag": 1600, "produced": 48000,
                   "delivered": 48000, "duplicates": 0}
        text = deploy_replay.table([summary, {**summary, "strategy": "static", "use_of_the_total_while_lag": None,
                                              "seconds_to_drain_after_the_last_restart": None}])
        self.assertRegex(text, r"drained after the last restart +7 s +not\n")
        self.assertRegex(text, r"use of the limit while lag +98.7% of 20 s +no lag\n")

    def test_what_cannot_work_is_refused(self):
        self.assertEqual(deploy_replay.arguments_of(["--max-rate", "500"]).traffic, 400)
        for words in (["--traffic", "1000"], ["--workers", "1"], ["--workers", "13"], ["--away", "-1"], ["--strategy", "hermes"]):
            with self.subTest(words), self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                deploy_replay.arguments_of(words)


if __name__ == "__main__":
    unittest.main()
