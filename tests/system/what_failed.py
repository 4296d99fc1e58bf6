#!/usr/bin/env python3
"""Says in short what failed in a run of CTest: what_failed.py JUNIT.xml... A machine that keeps but the end of a long output keeps this.

Of each test that failed: the lines that say so, and how its output ended.
"""

import sys
import xml.etree.ElementTree

MOST_CHARACTERS = 3000  # for all tests that failed together
LONGEST_LINE = 200
LINES_OF_A_FAILURE = 8
LINES_BEFORE = 4
LINES_OF_THE_END = 12


def told(lines):
    """The lines that say it: each of GoogleTest's failures with the end of its test, which names it; a scenario's, what it said just before
    included; Python's and the scripts' errors."""
    kept = set()
    for at, line in enumerate(lines):
        if line.endswith(": Failure"):
            kept.update(range(at, at + LINES_OF_A_FAILURE))
        elif line.startswith("[  FAILED  ]") and line.endswith(" ms)"):
            kept.add(at)
        elif line.startswith("FAILED: "):
            kept.update(range(at - LINES_BEFORE, at + 1))
        elif line.startswith(("FAIL: ", "ERROR: ", "AssertionError", "error: ")):
            kept.add(at)
    return [line for at, line in enumerate(lines) if at in kept and not line.startswith(("[ RUN ", "[       OK "))]


def shortened(lines, most):
    """Whole lines, as many as fit."""
    kept = []
    for line in lines:
        line = line[:LONGEST_LINE]
        most -= len(line) + 3
        if most < 0:
            return kept + ["..."]
        kept.append(line)
    return kept


def essence(output, most=MOST_CHARACTERS):
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    failures = shortened(told(lines), most * 2 // 3)
    end = shortened(reversed(lines[-LINES_OF_THE_END:]), most - sum(len(line) + 3 for line in failures))[::-1]
    return failures + ["how it ended:"] + end


def failed_tests(file):
    """Name and output of each."""
    for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
        if case.find("failure") is not None:
            yield case.get("name"), case.findtext("system-out") or ""


def main(files):
    failed = [test for file in files for test in failed_tests(file)]
    for name, output in failed:
        print(f"{name} failed:")
        for line in essence(output, MOST_CHARACTERS // len(failed)):
            print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
