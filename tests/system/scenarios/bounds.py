"""A 1 MB message, a 20 MB one beyond the cap, and 100 000 for a dead endpoint: the memory stays within its bound, the right one is refused."""

import os
import re
import subprocess

import checks
import posthorn_system as system

LIMIT_SECONDS = 110
MEMORY = 128 << 20
PROCESS_ITSELF = 64 << 20  # code, stacks, client libraries; what `memory` does not count
BACKLOG = 100_000


def peak(worker):
    with open(f"/proc/{worker.child.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) * 1024


def produce_large(test, topic, size):
    file = test.folder / f"message-{size}"
    file.write_bytes(os.urandom(size // 2).hex().encode())
    run = subprocess.run(["kcat", "-P", "-q", "-b", test.broker.bootstrap, "-t", topic, "-p", "0", "-X", "acks=all",
                          "-X", "message.max.bytes=31457280", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, timeout=60)
    checks.require(run.returncode == 0, f"kcat could not produce {size} bytes: {run.stderr[-500:]}")
    file.unlink()


def run(test):
    topic = test.topic(partitions=12)
    test.broker.run("tools", "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic,
                    "--add-config", "max.message.bytes=31457280")
    sink = test.sink()
    test.deployment(memory="128MiB")
    test.subscriptions({"name": "billing", "topic": topic, "endpoint": sink.endpoint,
                        "backoff": {"initial": "500ms", "max": "2s"}})
    worker, = test.fleet_of(1)
    idle = peak(worker)
    for size in (1_000_000, 20_000_000, 1_000_000):
        produce_large(test, topic, size)
    system.eventually("both messages of 1 MB are delivered", lambda: len(sink.delivered()) == 2, within=20)
    letter, = system.eventually("the large one is a dead letter", test.dead_letters, within=20)
    checks.reasons([letter], {"too-large"})
    checks.require(letter.headers.get("posthorn-value-size") == "20000000", f"its headers are {letter.headers}")
    checks.require(not letter.attempts, "it was attempted")
    test.say(f"peak {idle >> 20} MiB idle, {peak(worker) >> 20} MiB after messages of 1 and 20 MB")

    sink.stop()
    test.produce(topic, BACKLOG, size=1000)
    system.eventually("the endpoint is probed only", lambda: worker.get_json("/subscriptions")["subscriptions"][0]["health"]["state"]
                      == "probing", within=20)
    held = 0
    for _ in range(20):
        system.time.sleep(0.5)
        held = max(held, worker.metric("posthorn_memory_held_bytes"))
    limit = worker.metric("posthorn_memory_limit_bytes")
    most = peak(worker)
    test.say(f"{BACKLOG} messages for a dead endpoint: held {int(held) >> 20} of {int(limit) >> 20} MiB, peak {most >> 20} MiB resident")
    checks.require(held <= limit * 1.05, f"{held} bytes of messages held, the bound is {limit}")
    checks.require(most <= MEMORY + PROCESS_ITSELF, f"the worker used up to {most >> 20} MiB")
    sink.start()
    system.eventually("deliveries go on", lambda: len(sink.delivered()) > 1_000, within=25)
    test.none_has_ended()
