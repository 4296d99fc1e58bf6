#!/usr/bin/env python3
"""Looks for what tests plant as secrets in the output of a whole run: told_secrets.py FILE... names each line that tells one, and fails.

Whatever is a secret in a test is one of these words or begins with one, in unit tests and in scenarios alike.
"""

import pathlib
import sys

WORDS = ("planted-", "hunter2")


def told(text):
    """The lines that tell a secret, with their numbers."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if any(word in line for word in WORDS)]


def main(files):
    status = 0
    for file in map(pathlib.Path, files):
        if not file.exists():
            print(f"{file} is not there", file=sys.stderr)
            status = 1
            continue
        for number, line in told(file.read_text(errors="replace")):
            print(f"{file}:{number}: tells a secret: {line[:300]}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
