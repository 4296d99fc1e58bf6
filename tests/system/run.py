#!/usr/bin/env python3
"""Runs one scenario: run.py NAME; run.py --list names them; run.py --kafka start|stop is the Kafka that a ctest run shares."""

import importlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "scenarios")]

import posthorn_system  # noqa: E402  (found beside this file)


def shared_kafka(action):
    name = os.environ["POSTHORN_KAFKA"]
    # Also before a start: a run that was cut off may have left one.
    subprocess.run([str(posthorn_system.KAFKA), "stop", "--id", name, "--delete"], check=True)
    if action == "start":
        subprocess.run([str(posthorn_system.KAFKA), "start", "--id", name, "--port", "0"], check=True)


def main(arguments):
    if arguments == ["--list"]:
        for path in sorted((HERE / "scenarios").glob("*.py")):
            print(f"{path.stem:32} {importlib.import_module(path.stem).__doc__.splitlines()[0]}")
        return 0
    if len(arguments) == 2 and arguments[0] == "--kafka" and arguments[1] in ("start", "stop"):
        shared_kafka(arguments[1])
        return 0
    if len(arguments) != 1 or not (HERE / "scenarios" / f"{arguments[0]}.py").exists():
        print(__doc__, file=sys.stderr)
        return 2
    return posthorn_system.run_scenario(importlib.import_module(arguments[0]), arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
