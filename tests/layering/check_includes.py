#!/usr/bin/env python3
"""Holds the include rules of the rooms: who may know whom, and which room is home to which library.

  check_includes.py ROOT                     the rules, over every .h and .cc of the rooms
  check_includes.py ROOT --compile "g++ .."  also compiles every header alone
  check_includes.py --self-test              plants one violation of each rule and sees it reported

Every violation is one line `file:line: what, and which rule`; exit code 1 when there is any.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# Room -> what it may include of ours: a folder (it and what is below) or one file. The longest room that fits a file counts.
BASE = ["ratelimit", "config"]
ROOMS = {
    "ratelimit": ["ratelimit"],
    "config": ["config", "ratelimit/max_rate.h", "ratelimit/time.h"],
    "worker/runtime": ["worker/runtime", "ratelimit/time.h"],
    "worker/delivery": ["worker/delivery", "worker/runtime", *BASE],
    "worker/kafka": ["worker/kafka", "worker/delivery", "worker/runtime", *BASE],
    "worker/http": ["worker/http", "worker/delivery", "worker/runtime", *BASE],
    "worker/fleet": ["worker/fleet", "worker/delivery", "worker/runtime", *BASE],
    "worker/admin": ["worker/admin", "worker/delivery", "worker/fleet", "worker/http", "worker/kafka", "worker/runtime", *BASE],
    "worker/simulation": ["worker/simulation", *BASE],
    "worker/cli": ["worker", *BASE],
}

# Third-party prefix -> the only rooms that may include it.
HOMES = {
    "librdkafka/": ["worker/kafka"],
    "curl/": ["worker/http", "config/sources"],
    "boost/asio": ["worker/runtime", "worker/http", "worker/admin", "worker/fleet", "worker/cli", "config/sources"],
    "boost/beast": ["worker/admin", "worker/cli"],
    "yaml-cpp/": ["config", "worker/cli"],
    "spdlog/": ["worker/runtime", "worker/cli"],
    "prometheus/": ["worker/admin"],
}

# Too heavy for any header.
HEAVY = ["boost/asio", "boost/beast", "boost/json", "spdlog/", "yaml-cpp/", "nlohmann/", "prometheus/", "CLI/"]

# Words that a pure room does not use: it is told `now`, and it owns neither threads nor sockets nor files.
PURE = ["ratelimit", "worker/simulation"]
IMPURE = re.compile(r"#\s*include\s*<(thread|condition_variable|future|semaphore|fstream|iostream|sys/socket\.h|time\.h|ctime)>"
                    r"|\bstd::(jthread|thread|async)\b|_clock::now\b|\bclock_gettime\b|\bgettimeofday\b|\bthis_thread\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
OURS = ("ratelimit/", "config/", "worker/", "tests/")


def room_of(path):
    fitting = [room for room in ROOMS if path.startswith(room + "/")]
    return max(fitting, key=len, default=None)


def within(path, allowed):
    return any(path == entry or path.startswith(entry + "/") for entry in allowed)


def sources(root):
    for top in ("ratelimit", "config", "worker"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path.relative_to(root).as_posix()


def check_line(path, room, line):
    """The violations of one line, as texts."""
    if room in PURE and IMPURE.search(line.partition("//")[0]):
        yield f"{room} is pure: it takes `now` and owns no thread, clock, file or socket"
    found = INCLUDE.match(line)
    if not found:
        return
    quote, target = found.groups()
    if quote == '"':
        if not target.startswith(OURS):
            yield f'"{target}" is not included from the root of the repository'
        elif not within(target, ROOMS[room]):
            yield f'{room} may not include "{target}"; it knows {", ".join(ROOMS[room])}'
    for prefix, homes in HOMES.items():
        if target.startswith(prefix) and not within(path, homes):
            yield f"<{target}> belongs to {', '.join(homes)} only"
    if path.endswith(".h"):
        for prefix in HEAVY:
            if target.startswith(prefix):
                yield f"<{target}> is too heavy for a header; include it in a .cc file"


def check(root):
    violations = []
    for path in sources(root):
        room = room_of(path)
        if room is None:
            violations.append(f"{path}:1: no room of this file is known; name it in {pathlib.Path(__file__).name}")
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            violations += [f"{path}:{number}: {text}" for text in check_line(path, room, line)]
    return violations


def compile_alone(root, command):
    """Compiles each header as the only include of a file; returns the complaints. Where a header is the first include of
    the .cc file of its name the build has done so already."""
    def one(path):
        run = subprocess.run([*shlex.split(command), f"-I{root}", "-fsyntax-only", "-x", "c++", "-"], cwd=root, text=True,
                             input=f'#include "{path}"\n', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return [] if run.returncode == 0 else [f"{path}:1: does not compile alone\n{run.stdout}"]

    def first_in_its_source(path):
        source = (root / path).with_suffix(".cc")
        lines = source.read_text(encoding="utf-8").splitlines() if source.exists() else []
        first = next(filter(None, map(INCLUDE.match, lines)), None)
        return first is not None and first.group(2) == path

    headers = [path for path in sources(root) if path.endswith(".h") and not first_in_its_source(path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [complaint for found in pool.map(one, headers) for complaint in found]


# One planted violation of each rule: file, line, a part of the report.
PLANTED = [
    ("ratelimit/a.h", '#include "config/model.h"', 'ratelimit may not include "config/model.h"'),
    ("ratelimit/b.cc", "#include <thread>", "ratelimit is pure"),
    ("ratelimit/c.cc", "auto t = std::chrono::steady_clock::now();", "ratelimit is pure"),
    ("config/a.cc", '#include "ratelimit/limiter.h"', 'config may not include "ratelimit/limiter.h"'),
    ("config/b.cc", "#include <curl/curl.h>", "<curl/curl.h> belongs to"),
    ("config/sources/a.h", '#include "worker/runtime/clock.h"', "config may not include"),
    ("worker/runtime/a.h", '#include "worker/delivery/lane.h"', "worker/runtime may not include"),
    ("worker/runtime/b.h", "#include <boost/asio.hpp>", "too heavy for a header"),
    ("worker/delivery/a.cc", '#include "worker/kafka/feed.h"', "worker/delivery may not include"),
    ("worker/delivery/b.cc", "#include <boost/asio/post.hpp>", "belongs to"),
    ("worker/http/a.cc", "#include <librdkafka/rdkafka.h>", "belongs to worker/kafka only"),
    ("worker/kafka/a.cc", '#include "worker/http/curl_sender.h"', "worker/kafka may not include"),
    ("worker/fleet/a.cc", '#include "worker/admin/metrics.h"', "worker/fleet may not include"),
    ("worker/admin/a.cc", '#include "worker/cli/sink.h"', "worker/admin may not include"),
    ("worker/simulation/a.cc", '#include "worker/fleet/limit_book.h"', "worker/simulation may not include"),
    ("worker/simulation/b.cc", "#include <fstream>", "worker/simulation is pure"),
    ("worker/cli/a.cc", '#include "tests/support/fake.h"', "worker/cli may not include"),
    ("worker/cli/b.cc", '#include "sink.h"', "not included from the root"),
    ("worker/new_room/a.cc", "", "no room of this file is known"),
]
ALLOWED = [
    ("config/ok.h", '#include "ratelimit/max_rate.h"'),
    ("config/sources/ok.cc", "#include <curl/curl.h>"),
    ("ratelimit/ok.cc", "// std::thread and steady_clock::now are named in a comment"),
    ("worker/kafka/ok.h", '#include "worker/delivery/feed.h"'),
    ("worker/runtime/ok.cc", "#include <boost/asio/post.hpp>"),
    ("worker/cli/ok.cc", '#include "worker/admin/server.h"'),
]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, line, *_ in PLANTED + ALLOWED:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(line + "\n")
        found = check(root)
    faults = [f"not reported: {path}: {line}" for path, line, part in PLANTED
              if not any(text.startswith(path + ":") and part in text for text in found)]
    faults += [f"reported although allowed: {text}" for text in found
               if any(text.startswith(path + ":") for path, _ in ALLOWED)]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path)
    parser.add_argument("--compile", metavar="COMMAND", help="compiler and flags; compiles every header alone instead of checking includes")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        faults = self_test()
    elif arguments.root is None:
        parser.error("ROOT is missing")
    elif arguments.compile:
        faults = compile_alone(arguments.root.resolve(), arguments.compile)
    else:
        faults = check(arguments.root.resolve())
    for fault in faults:
        print(fault)
    print(f"{len(faults)} violations" if faults else "the rooms keep their rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
