"""Measures Posthorn beside its yardsticks and prints Markdown tables; `scripts/bench` builds and runs this.

CPU per message is what counts: on a shared machine rates are noise, CPU per message and ratios within one round are not. Rounds are
interleaved (wrk, bare loop, worker, and again) and the median of each is shown.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from parts import BUILD, Fault, Kafka, POSTHORN, Sink, Worker, cpu_seconds, eventually, footprint, run, say, tool

BYTES = 200
POST_LUA = 'wrk.method="POST"; wrk.body=string.rep("x",%d); wrk.headers["content-type"]="application/octet-stream"' % BYTES


def table(title, head, rows):
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def subscription(name, topic, sink, **more):
    keys = "".join(f"    {key}: {value}\n" for key, value in more.items())
    return f"  - name: {name}\n    topic: {topic}\n    endpoint: http://{sink.address}/in\n{keys}"


def file_of(*subscriptions, instances=None):
    return (f"instances: {instances}\n" if instances else "") + "subscriptions:\n" + "".join(subscriptions)


# ---- CPU per message, unlimited

def measure_wrk(sink, in_flight, script, seconds):
    process = subprocess.Popen(["wrk", "-t1", f"-c{in_flight}", f"-d{seconds}s", "-s", script, f"http://{sink.address}/in"],
                               stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    requests = int(re.search(r"(\d+) requests in", out).group(1))
    return {"cpu_us": (usage.ru_utime + usage.ru_stime) * 1e6 / requests}


def measure_bare(kafka, sink, topic, messages, in_flight):
    out = run(tool("bare_loop"), "--brokers", kafka.bootstrap, "--topic", topic, "--endpoint", f"http://{sink.address}/in",
              "--messages", messages, "--in-flight", in_flight)
    return json.loads(out)


def measure_worker(kafka, sink, topic, messages, in_flight, fleet, sets):
    text = file_of(subscription("all", topic, sink, max_in_flight=in_flight))
    with Worker(kafka, fleet, text, sets=sets) as worker:
        def started():
            count = worker.delivered()
            return count and (count, worker.cpu())
        first, first_cpu = eventually("a first delivery", started, 60, every=0.02)
        begun = time.monotonic()
        eventually("all messages delivered", lambda: worker.delivered() >= messages, 300, every=0.1)
        cpu = worker.cpu()
        return {"cpu_us": (cpu - first_cpu) * 1e6 / (messages - first), "cpu_us_with_start": cpu * 1e6 / messages,
                "seconds": time.monotonic() - begun, **footprint(worker.pid)}


def case_cpu(kafka, arguments):
    messages = arguments.messages
    kafka.topics(["filled"], 8)
    kafka.produce(["filled"], messages)
    results = {}
    with Sink("--minimal", "--quiet") as sink, tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(POST_LUA)
        script.flush()
        for number in range(arguments.rounds):
            for in_flight in arguments.in_flight:
                got = {
                    "wrk": measure_wrk(sink, in_flight, script.name, 3),
                    "bare loop": measure_bare(kafka, sink, "filled", messages, in_flight),
                    "worker": measure_worker(kafka, sink, "filled", messages, in_flight, f"cpu-{in_flight}-{number}", arguments.set),
                }
                for name, values in got.items():
                    results.setdefault((name, in_flight), []).append(values)
                say(f"round {number + 1}, {in_flight} in flight: "
                    + ", ".join(f"{name} {values['cpu_us']:.1f} us" for name, values in got.items()))

    def middle(name, in_flight, key):
        values = [values[key] for values in results[name, in_flight] if key in values]
        return statistics.median(values) if values else None

    rows = []
    for in_flight in arguments.in_flight:
        ratios = [w["cpu_us"] / b["cpu_us"] for w, b in zip(results["worker", in_flight], results["bare loop", in_flight])]
        for name in ("wrk", "bare loop", "worker"):
            with_start = middle(name, in_flight, "cpu_us_with_start")
            cpu = middle(name, in_flight, "cpu_us")
            rows.append([
                name, in_flight, f"{cpu:.1f}" + (f" ({with_start:.1f})" if with_start else ""),
                f"{cpu / middle('bare loop', in_flight, 'cpu_us'):.2f}" + (f" ({min(ratios):.2f} to {max(ratios):.2f})" if name == "worker" else ""),
                f"{middle(name, in_flight, 'peak_mb') or (middle(name, in_flight, 'resident_kb') or 0) / 1024:.0f}" if name != "wrk" else "",
                f"{middle(name, in_flight, 'threads'):.0f}" if name != "wrk" else ""])
    table(f"CPU per delivered message, {messages} messages of {BYTES} B from 8 partitions, median of {arguments.rounds} rounds",
          ["", "in flight", "CPU us, steady (with start-up)", "of the bare loop (smallest to largest round)", "peak resident MB", "threads"], rows)
    return {f"{name} {in_flight}": values for (name, in_flight), values in results.items()}


# ---- under a limit

def case_limit(kafka, arguments):
    rate, seconds = 2000, arguments.seconds
    kafka.topics(["limited"], 8)
    kafka.produce(["limited"], rate * (seconds + 20))
    rows, results = [], {}
    for count in (1, 3):
        with contextlib.ExitStack() as stack:
            sink = stack.enter_context(Sink("--quiet"))
            text = file_of(subscription("all", "limited", sink, max_rate=f"{rate}/s"), instances=count)
            workers = [stack.enter_context(Worker(kafka, f"limit-{count}", text, slot, arguments.set)) for slot in range(count)]
            eventually("every worker delivers", lambda: all(worker.delivered() > 50 for worker in workers), 60)
            time.sleep(2)

            def reading():
                return sum(worker.delivered() for worker in workers), sum(worker.cpu() for worker in workers), time.time()
            first = reading()
            time.sleep(seconds)
            last = reading()
            counts = sink.counts()
            steady = {int(s): v["requests"] for s, v in counts["seconds"].items() if first[2] + 1 <= int(s) and int(s) + 1 <= last[2]}
            cpu = (last[1] - first[1]) * 1e6 / (last[0] - first[0])
            results[count] = {"cpu_us": cpu, "per_second": steady, **{key: counts[key] for key in ("largest_10ms", "largest_100ms", "largest_1s")}}
            rows.append([count, f"{cpu:.1f}", counts["largest_10ms"], counts["largest_100ms"], counts["largest_1s"],
                         f"{min(steady.values())} to {max(steady.values())}"])
            say(f"{rate}/s, {count} workers: {rows[-1]}")
    table(f"At max_rate {rate}/s, full backlog, {seconds} s (largest: from the first request on, wherever the span starts)",
          ["workers", "CPU us per message, all workers", "largest 10 ms", "largest 100 ms", "largest sliding second", "per wall-clock second at the sink"], rows)
    return results


# ---- latency

def case_latency(kafka, arguments):
    samples = arguments.samples
    rows, results = [], {}
    for name, more in (("no max_rate", {}), ("max_rate 2000/s", {"max_rate": "2000/s"})):
        topic = "latency-" + re.sub(r"\W", "", name)
        kafka.topics([topic], 8)
        with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as log, Sink("--quiet", "--log", log.name) as sink:
            text = file_of(subscription("all", topic, sink, **more), instances=1)
            with Worker(kafka, topic, text, sets=arguments.set) as worker:
                eventually("all partitions", lambda: worker.owned() == 8, 60)
                kafka.produce([topic], 8, rate=10)  # every partition and connection once
                eventually("the first messages delivered", lambda: worker.delivered() == 8, 30)
                cpu, at = worker.cpu(), time.monotonic()
                produced = kafka.produce([topic], samples, rate=10)
                cpu_share = (worker.cpu() - cpu) / (time.monotonic() - at)

                def received():
                    lines = [json.loads(line) for line in pathlib.Path(log.name).read_text().splitlines()]
                    return len(lines) >= samples + 8 and {line["webhook_id"]: line["time_ns"] for line in lines}
                arrived = eventually("everything received", received, 30)
        late = sorted((arrived[f"{topic}-{partition}-{offset}"] - at) / 1e6 for partition, offset, at in produced)
        p50, p99 = late[len(late) // 2], late[min(len(late) - 1, round(len(late) * 0.99))]
        results[name] = {"p50_ms": p50, "p99_ms": p99, "max_ms": late[-1], "cpu_share": cpu_share}
        rows.append([name, f"{p50:.2f}", f"{p99:.2f}", f"{late[-1]:.2f}", f"{cpu_share:.2%}"])
        say(f"latency, {name}: {rows[-1]}")
    table(f"From right before produce to the request at the sink, 10 messages a second, {samples} messages, no backlog",
          ["", "p50 ms", "p99 ms", "largest ms", "CPU of one core"], rows)
    return results


# ---- many subscriptions

def case_scale(kafka, arguments):
    topics = [f"scale-{n}" for n in range(10)]
    kafka.topics(topics, 4)
    rows, results = [], {}
    with Sink("--minimal", "--quiet") as sink:
        for count, limits in ((1, {}), (1000, {}), (1000, {"max_rate": "100/s"})):
            text = file_of(*[subscription(f"s{n}", topics[n % 10], sink, start="latest", **limits) for n in range(count)])
            with Worker(kafka, f"scale-{count}-{len(limits)}", text, sets=arguments.set) as worker:
                lanes = count * 4
                eventually("all lanes", lambda: sum(len(s["lag"]["partitions"]) for s in worker.subscriptions()) == lanes, 120, every=1)
                time.sleep(10)

                def watch(seconds):
                    cpu = worker.cpu()
                    time.sleep(seconds)
                    return {"cpu_share": (worker.cpu() - cpu) / seconds, **footprint(worker.pid)}
                idle = watch(10)
                before = worker.delivered()
                producing = kafka.start_producing(topics, 200, 10)
                time.sleep(5)
                busy = watch(10)
                producing.wait()
                expected = 200 * count / 10
                eventually("everything delivered", lambda: worker.delivered() - before >= expected, 60)
            shown = f"{count}, each with a max_rate" if limits else str(count)
            results[shown] = {"idle": idle, "busy": busy}
            for what, got in (("idle", idle), (f"{count} deliveries a second", busy)):
                rows.append([shown, what, got["threads"], f"{got['resident_mb']:.0f}", got["descriptors"], f"{got['cpu_share']:.2%}"])
                say(f"subscriptions: {rows[-1]}")
    table("Subscriptions on 10 topics of 4 partitions, one worker",
          ["subscriptions", "", "threads", "resident MB", "descriptors", "CPU of one core"], rows)
    return results


# ---- acquire

def case_acquire(_, __):
    out = json.loads(run(tool("acquire_bench"), "--benchmark_format=json", "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true"))
    results = {}
    for case in out["benchmarks"]:
        if case["aggregate_name"] == "median":
            name = case["run_name"].split("/")[0]
            results.setdefault(name, {})[case["threads"]] = case["cpu_time"]
    table("One acquire, the time given, ns of CPU per call (median of 5)", ["", "1 thread", "2 threads"],
          [[name, *(f"{by_threads[n]:.1f}" for n in (1, 2))] for name, by_threads in results.items()])
    return results


# ---- plan

def case_plan(_, __):
    out = json.loads(run(tool("plan_bench"), "--benchmark_format=json"))
    rows = [[case["name"].split("/")[1], f"{case['cpu_time']:.1f}", f"{case['grants']:.0f}"] for case in out["benchmarks"]]
    table("Coordinator of one limit with leases: a window's reports and plan, demand moving in every window",
          ["workers", "ms of CPU per window", "grants per window"], rows)
    return rows


CASES = {"acquire": case_acquire, "plan": case_plan, "cpu": case_cpu, "limit": case_limit, "latency": case_latency, "scale": case_scale}


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"date": datetime.date.today().isoformat(), "cpu": f"{os.cpu_count()} x {model}", "memory_gib": round(memory, 1),
            "kernel": platform.release(), "load_at_start": round(os.getloadavg()[0], 1)}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), metavar="CASE,..", help="of: " + " ".join(CASES))
    parser.add_argument("--messages", type=int, default=200_000, help="of case cpu (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of case cpu (default %(default)s)")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256], help="of case cpu")
    parser.add_argument("--seconds", type=int, default=10, help="of case limit (default %(default)s)")
    parser.add_argument("--samples", type=int, default=300, help="of case latency (default %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed to every worker, repeatable: --set shards=1")
    parser.add_argument("--json", metavar="FILE", default=str(BUILD / "results.json"), help="where the raw figures go (default %(default)s)")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    if not POSTHORN.exists():
        raise Fault(f"{POSTHORN} is not built: run scripts/bench")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    results = {"machine": machine()}
    print(", ".join(f"{key} {value}" for key, value in results["machine"].items()))
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(Kafka()) if set(wanted) - {"acquire", "plan"} else None
        for name in wanted:
            say(f"case {name}")
            results[name] = CASES[name](kafka, arguments)
    pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    say(f"raw figures in {arguments.json}")


if __name__ == "__main__":
    try:
        main()
    except (Fault, OSError) as fault:
        sys.exit(f"error: {fault}")
    except KeyboardInterrupt:
        sys.exit(130)
