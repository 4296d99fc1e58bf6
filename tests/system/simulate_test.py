"""posthorn simulate from the command line: what it prints, what it writes, what it refuses."""

import csv
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

SCENARIO = """
max_rate: 100/s
duration: 5s
workers:
  - { name: busy, backlog: 10000 }
  - { name: idle, count: 2 }
"""


SHIPPED = pathlib.Path(__file__).parents[2] / "scripts" / "simulations"
PLANNING = re.compile(r"hearing reports and planning: ([\d.]+) ms of CPU per second of the scenario, ([\d.]+) ms in the most expensive\n")


def simulate(*arguments, timeout=20):
    return subprocess.run([os.environ["POSTHORN_BINARY"], "simulate", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)


class Simulate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def scenario(self, text):
        file = self.folder / "scenario.yaml"
        file.write_text(text)
        return file

    def test_prints_the_summary_and_writes_lines_and_picture(self):
        out = self.folder / "not" / "there"
        run = simulate(self.scenario(SCENARIO), "--out", out)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, PLANNING)
        self.assertEqual(run.stdout, (out / "summary.json").read_text())
        summary = json.loads(run.stdout)
        self.assertEqual((summary["scenario"], summary["strategy"], summary["seconds_above_total"]), ("scenario", "adaptive", 0))
        lines = list(csv.DictReader((out / "windows.csv").read_text().splitlines()))
        self.assertEqual([line["worker"] for line in lines[:4]], ["busy", "idle-0", "idle-1", "*"])
        self.assertEqual(len(lines), 5 * 4)
        self.assertEqual([int(line["label"]) - int(lines[0]["label"]) for line in lines], [int(line["second"]) for line in lines])
        xml.etree.ElementTree.parse(out / "charts.svg")

    def test_each_strategy_shares_in_its_own_way(self):
        sent = {}
        for strategy in ("static", "adaptive", "hermes", "fraction"):
            summary = json.loads(simulate(self.scenario(SCENARIO), "--strategy", strategy).stdout)
            self.assertEqual(summary["strategy"], strategy)
            sent[strategy] = summary["sent"]
        self.assertLess(sent["static"], 5 * 34 + 1)
        self.assertGreater(sent["adaptive"], 5 * 97)
        self.assertEqual(len(set(sent.values())), 4)

    def test_ten_thousand_instances_are_planned_in_real_time_on_one_core(self):
        text = (SHIPPED / "ten_thousand_instances.yaml").read_text()
        shorter = text.replace("duration: 15s", "duration: 3s\nwarm_up: 2s")
        self.assertNotEqual(text, shorter)
        run = simulate(self.scenario(shorter), timeout=100)
        summary = json.loads(run.stdout)
        self.assertEqual((summary["workers"], summary["seconds_above_total"]), (10_000, 0))
        self.assertGreater(summary["use_of_the_total_while_lag"], 0.9)
        mean, most = map(float, PLANNING.fullmatch(run.stderr).groups())
        print(f"\n10 000 instances: {mean} ms of CPU per window to plan, {most} ms at most", flush=True)
        self.assertLess(most, 1000)  # of CPU in one second: one core is enough

    def test_tells_every_fault_of_a_scenario(self):
        run = simulate(self.scenario("max_rate: 100\nworkers: [{ nam: w }]\n"))
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("scenario.yaml:1:11: max_rate: \"100\":", run.stderr)
        self.assertIn("did you mean `name`?", run.stderr)
        self.assertTrue(run.stderr.endswith("3 faults\n"), run.stderr)

    def test_refuses_what_cannot_be_read_or_written(self):
        self.assertEqual(simulate(self.folder / "none.yaml").returncode, 1)
        run = simulate(self.scenario(SCENARIO), "--out", self.folder / "scenario.yaml" / "below")
        self.assertEqual(run.returncode, 1)
        self.assertIn("cannot be written", run.stderr)

    def test_wrong_usage(self):
        self.assertEqual(simulate().returncode, 2)
        self.assertEqual(simulate(self.scenario(SCENARIO), "--strategy", "fair").returncode, 2)


if __name__ == "__main__":
    unittest.main()
