"""Some keys never get through, others heal: beyond the bound they go on in the retry topic while their partitions do. A worker is
killed in the middle. Everything is delivered or dead-lettered, and each key in its order."""

import http.server
import json
import sys
import threading

import checks
import posthorn_system as system

LIMIT_SECONDS = 100
MESSAGES = 3000
KEYS = 997  # of the messages that the tests produce
POISON = set(range(0, 2))  # not taken before all is checked
ILL = set(range(2, 8))  # not taken before they are healed
# Once nothing but the poisoned ones is left, the endpoint looks dead and is only probed: few attempts, or it takes long.
ATTEMPTS = 5


class Receiver:
    """An endpoint that judges by the message, which `posthorn sink` does not."""

    def __init__(self):
        self.refused, self.lock, self.seen = POISON | ILL, threading.Lock(), []  # keys; seen: (id, key, taken)
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                key = json.loads(body)["number"] % KEYS
                taken = key not in receiver.refused
                with receiver.lock:
                    receiver.seen.append((self.headers["webhook-id"], key, taken))
                self.send_response(200 if taken else 500)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *arguments):
                if not isinstance(sys.exc_info()[1], ConnectionResetError):  # a killed worker's
                    super().handle_error(*arguments)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}/hooks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def requests(self):
        with self.lock:
            return list(self.seen)

    def delivered(self):
        return {message for message, _, taken in self.requests() if taken}


def in_order(requests, dead):
    """No message of a key is delivered for the first time before the older ones of its partition were, or are dead letters."""
    first, keys = {}, {}
    for at, (message, key, taken) in enumerate(requests):
        keys[message] = key
        if taken:
            first.setdefault(message, at)
    by_key = {}
    for message, at in first.items():
        topic_partition, offset = message.rsplit("-", 1)
        by_key.setdefault((topic_partition, keys[message]), []).append((int(offset), at, message))
    for line in by_key.values():
        line.sort()
        for (_, before, older), (_, after, newer) in zip(line, line[1:]):
            checks.require(before < after or older in dead, f"{newer} was delivered before {older}")


def run(test):
    topic = test.topic(partitions=3)
    receiver = Receiver()
    test.deployment(max_unfinished=50)
    test.subscriptions({"name": "billing", "topic": topic, "endpoint": receiver.endpoint, "ordering": "key", "max_attempts": ATTEMPTS,
                        "max_in_flight": 16, "backoff": {"initial": "300ms", "multiplier": 2, "max": "1s", "jitter": "full"}},
                       instances=2)
    workers = test.fleet_of(2)
    test.produce(topic, MESSAGES)

    def parked():
        return sum(worker.metric("posthorn_messages_parked_total", subscription="billing") for worker in test.workers if worker.running)

    system.eventually("messages are parked", lambda: parked() > 10, within=30)
    victim = workers[1]
    victim.kill()
    test.workers.remove(victim)
    test.say(f"{victim.instance} is killed, {parked()} parked by the other")
    test.worker(victim.instance).await_ready()
    healthy = MESSAGES * (KEYS - len(POISON | ILL)) // KEYS
    system.eventually("everything healthy is delivered, although the rest is not",
                      lambda: len(receiver.delivered()) > healthy * 0.99, within=30)
    test.say(f"{parked()} parked; the ill keys are healed")
    receiver.refused = POISON
    produced = test.produced(topic)

    def finished():
        return produced <= receiver.delivered() | {letter.message for letter in test.dead_letters()}

    system.eventually("every message is delivered or dead-lettered", finished, within=40, every=0.5)
    letters = test.dead_letters()
    dead = {letter.message for letter in letters}
    requests = receiver.requests()
    checks.reasons(letters, {"attempts"})
    checks.require(dead, "nothing of the poisoned keys was given up")
    in_order(requests, dead)
    strange = receiver.delivered() - produced
    checks.require(not strange, f"messages nobody produced: {sorted(strange)[:5]}")
    # What the killed worker had parked and not yet committed may be parked twice, and takes its five attempts again.
    receiver.refused = set()
    system.eventually("nothing is parked any more",
                      lambda: sum(worker.metric("posthorn_parked", subscription="billing") for worker in test.workers) == 0, within=30)
    test.say(f"{len(produced)} produced, {len(receiver.delivered())} delivered in {len(requests)} attempts, {len(dead)} dead-lettered")
    test.none_has_ended()
    for worker in test.workers:
        worker.stop()
    receiver.server.shutdown()
