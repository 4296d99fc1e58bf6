#!/usr/bin/env python3
"""Says in short what failed in a run of CTest: what_failed.py JUNIT.xml... A machine that keeps but the end of a long output keeps this.

Of each test that failed: GoogleTest's own words of each failure, and how its output ended.
"""

import re
import sys
import xml.etree.ElementTree

MOST_CHARACTERS = 3000  # for all tests that failed together
LONGEST_LINE = 200
LINES_OF_A_FAILURE = 8
LINES_OF_THE_END = 12


def said_by_googletest(lines):
    """The lines of each failure, those of its test's end included: they name the test."""
    told = []
    left = 0
    for line in lines:
        if re.search(r": Failure$", line):
            left = LINES_OF_A_FAILURE
        elif line.startswith("[  FAILED  ]") and " ms)" in line:
            left = max(left, 1)
        elif line.startswith("["):
            left = 0
        if left:
            told.append(line)
            left -= 1
    return told


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
    failures = shortened(said_by_googletest(lines), most * 2 // 3)
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
