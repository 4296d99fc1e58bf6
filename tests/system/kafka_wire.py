"""Three questions to a broker in Kafka's own protocol, so that a test can ask them often: no client library, no JVM."""

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
    """One request and its answer without the correlation id. Errors: OSError when the broker is not there."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    message = struct.pack(">hhi", key, version, 1) + _text("system-test") + body
    with socket.create_connection((host, int(port)), timeout=5) as link:
        link.sendall(struct.pack(">i", len(message)) + message)
        stream = link.makefile("rb")
        head = stream.read(4)
        if len(head) < 4:
            raise OSError("the broker closed the connection")
        return _Reader(stream.read(struct.unpack(">i", head)[0])[4:])


def partitions(bootstrap, topic):
    """The topic's partition numbers, sorted; empty when there is no such topic. (Metadata v4, creates nothing.)"""
    reply = _ask(bootstrap, 3, 4, struct.pack(">i", 1) + _text(topic) + b"\0")
    reply.number("i")
    reply.list(lambda: (reply.number("i"), reply.text(), reply.number("i"), reply.text()))
    reply.text(), reply.number("i")

    def one_partition():
        error, number, leader = reply.number("h"), reply.number("i"), reply.number("i")
        reply.list(lambda: reply.number("i")), reply.list(lambda: reply.number("i"))
        return number, error, leader

    topics = reply.list(lambda: (reply.number("h"), reply.text(), reply.number("b"), reply.list(one_partition)))
    return sorted(number for error, _, _, found in topics if error == 0 for number, _, leader in found if leader >= 0)


def end_offsets(bootstrap, topic):
    """Partition -> log end offset, {} when there is no such topic. (ListOffsets v1.)"""
    numbers = partitions(bootstrap, topic)
    if not numbers:
        return {}
    wanted = b"".join(struct.pack(">iq", number, -1) for number in numbers)
    reply = _ask(bootstrap, 2, 1, struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">i", len(numbers)) + wanted)
    found = reply.list(lambda: (reply.text(), reply.list(
        lambda: (reply.number("i"), reply.number("h"), reply.number("q"), reply.number("q")))))
    offsets = {}
    for _, rows in found:
        for number, error, _, offset in rows:
            if error:
                raise OSError(f"end offset of {topic}-{number}: Kafka's error {error}")
            offsets[number] = offset
    return offsets


def committed_offsets(bootstrap, group):
    """(topic, partition) -> committed offset of the group. (OffsetFetch v2; the broker must be the group's coordinator.)"""
    reply = _ask(bootstrap, 9, 2, _text(group) + struct.pack(">i", -1))
    found = reply.list(lambda: (reply.text(), reply.list(
        lambda: (reply.number("i"), reply.number("q"), reply.text(), reply.number("h")))))
    error = reply.number("h")
    if error:
        raise OSError(f"offsets of group {group}: Kafka's error {error}")
    return {(topic, number): offset for topic, rows in found for number, offset, _, fault in rows if fault == 0 and offset >= 0}
