"""A few requests to a cluster in Kafka's own protocol, so that a test can ask them often: no client library, no JVM.

A broker that is down is passed over where another can answer. Errors: OSError, also for every fault Kafka names.
"""

import socket
import struct


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        size = struct.calcsize(">" + kind)
        value, = struct.unpack_from(">" + kind, self.data, self.at)
        self.at += size
        return value

    def text(self):
        size = self.number("h")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def list(self, item):
        return [item() for _ in range(self.number("i"))]


def _text(value):
    return struct.pack(">h", len(value)) + value.encode()


def _ask(bootstrap, key, version, body):
    """One request to the first broker that answers, and its answer without the correlation id."""
    fault = OSError(f"no broker in '{bootstrap}'")
    for address in bootstrap.split(","):
        try:
            return _ask_one(address, key, version, body)
        except OSError as error:
            fault = error
    raise fault


def _ask_one(address, key, version, body):
    host, _, port = address.rpartition(":")
    message = struct.pack(">hhi", key, version, 1) + _text("system-test") + body
    with socket.create_connection((host, int(port)), timeout=5) as link:
        link.sendall(struct.pack(">i", len(message)) + message)
        stream = link.makefile("rb")
        head = stream.read(4)
        if len(head) < 4:
            raise OSError("the broker closed the connection")
        return _Reader(stream.read(struct.unpack(">i", head)[0])[4:])


def _check(error, what):
    if error:
        raise OSError(f"{what}: Kafka's error {error}")


def _leaders(bootstrap, topic):
    """Address of a leader -> its partitions; empty when there is no such topic. (Metadata v4, creates nothing.)"""
    reply = _ask(bootstrap, 3, 4, struct.pack(">i", 1) + _text(topic) + b"\0")
    reply.number("i")
    brokers = {}
    for node, host, port, _ in reply.list(lambda: (reply.number("i"), reply.text(), reply.number("i"), reply.text())):
        brokers[node] = f"{host}:{port}"
    reply.text(), reply.number("i")

    def one_partition():
        error, number, leader = reply.number("h"), reply.number("i"), reply.number("i")
        reply.list(lambda: reply.number("i")), reply.list(lambda: reply.number("i"))
        return number, error, leader

    topics = reply.list(lambda: (reply.number("h"), reply.text(), reply.number("b"), reply.list(one_partition)))
    leaders = {}
    for error, _, _, found in topics:
        for number, _, leader in found if error == 0 else []:
            if leader not in brokers:
                raise OSError(f"{topic}-{number} has no leader")
            leaders.setdefault(brokers[leader], []).append(number)
    return leaders


def create_topic(bootstrap, topic, partitions, replicas, settings=None):
    """One that is there already is left as it is. (CreateTopics v2.)"""
    settings = settings or {}
    body = struct.pack(">i", 1) + _text(topic) + struct.pack(">ihii", partitions, replicas, 0, len(settings))
    body += b"".join(_text(key) + _text(value) for key, value in settings.items()) + struct.pack(">iB", 20_000, 0)
    reply = _ask(bootstrap, 19, 2, body)
    reply.number("i")
    for _, error, why in reply.list(lambda: (reply.text(), reply.number("h"), reply.text())):
        _check(0 if error == 36 else error, f"topic {topic} cannot be made ({why})")


def end_offsets(bootstrap, topic):
    """Partition -> log end offset, {} when there is no such topic. (ListOffsets v1.)"""
    offsets = {}
    for leader, numbers in _leaders(bootstrap, topic).items():
        wanted = b"".join(struct.pack(">iq", number, -1) for number in numbers)
        reply = _ask(leader, 2, 1, struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">i", len(numbers)) + wanted)
        found = reply.list(lambda: (reply.text(), reply.list(
            lambda: (reply.number("i"), reply.number("h"), reply.number("q"), reply.number("q")))))
        for _, rows in found:
            for number, error, _, offset in rows:
                _check(error, f"end offset of {topic}-{number}")
                offsets[number] = offset
    return offsets


def committed_offsets(bootstrap, group):
    """(topic, partition) -> committed offset of the group. (FindCoordinator v1, OffsetFetch v2.)"""
    reply = _ask(bootstrap, 10, 1, _text(group) + b"\0")
    reply.number("i")
    _check(reply.number("h"), f"coordinator of group {group}")
    reply.text(), reply.number("i")
    reply = _ask(f"{reply.text()}:{reply.number('i')}", 9, 2, _text(group) + struct.pack(">i", -1))
    found = reply.list(lambda: (reply.text(), reply.list(
        lambda: (reply.number("i"), reply.number("q"), reply.text(), reply.number("h")))))
    _check(reply.number("h"), f"offsets of group {group}")
    return {(topic, number): offset for topic, rows in found for number, offset, _, fault in rows if fault == 0 and offset >= 0}
