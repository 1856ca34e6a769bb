"""A client's requests and answers, a JSON array a line: its process writes, the run reads and builds a `History`.

A line is written with one system call, before the client goes on, so a killed process misses at most an answer that it
never saw. Times are those of the machine's monotonic clock, which all processes share. Only the first word of a value
is noted, which names the record.
"""

import json
import os
from pathlib import Path
from typing import Any

from replog.simulator.history import History, Latest, Outcome, Poll, ProducerSend, Read
from replog.topic import TopicPartition

SENT, ACKNOWLEDGED, FAILED, READ, LATEST = "sent", "acknowledged", "failed", "read", "latest"
CREATED, NOT_CREATED, DELETING = "created", "not created", "deleting"  # topics


class NoteWriter:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, kind: str, *what: Any) -> None:
        os.write(self._file, json.dumps([kind, *what]).encode() + b"\n")


class Gathered:
    """All clients' notes so far."""

    def __init__(self, directory: Path) -> None:
        self.history = History()
        self.acknowledged_at: dict[str, dict[TopicPartition, float]] = {}  # each client's last acknowledged send
        self.positions: dict[str, dict[TopicPartition, int]] = {}  # each client's consumer's
        self.created: dict[str, float] = {}  # topics whose creation succeeded, and its seconds
        self.not_created: list[str] = []  # errors
        self.deleting: set[str] = set()  # topics that may be gone
        self._directory = directory
        self._read_to: dict[Path, int] = {}
        self._sends: dict[bytes, ProducerSend] = {}

    def gather(self) -> None:
        """Read what is new. A line that is not whole yet waits for the next call."""
        for path in sorted(self._directory.glob("*.notes")):
            with path.open("rb") as file:
                file.seek(self._read_to.get(path, 0))
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self._read_to[path] = self._read_to.get(path, 0) + len(whole) + 1
                for line in whole.split(b"\n"):
                    self._note(*json.loads(line))
        self.history.acknowledgements.sort(key=lambda send: send.completed_s or 0.0)

    def _note(self, kind: str, *what: Any) -> None:
        if kind == SENT:
            client, topic, partition, value, invoked_s = what
            send = ProducerSend(client, TopicPartition(topic, partition), value.encode(), -1, True, invoked_s)
            self._sends[send.value] = send
            self.history.sends.append(send)
        elif kind == ACKNOWLEDGED:
            value, offset, completed_s = what
            send = self._sends[value.encode()]
            send.outcome, send.offset, send.completed_s = Outcome.OK, offset, completed_s
            self.history.acknowledgements.append(send)
            self.acknowledged_at.setdefault(send.client, {})[send.partition] = send.invoked_s
        elif kind == FAILED:
            value, may_be_appended, error, completed_s = what
            send = self._sends[value.encode()]
            send.outcome = Outcome.UNKNOWN if may_be_appended else Outcome.FAILED
            send.error, send.completed_s = error, completed_s
        elif kind == READ:
            client, _invoked_s, completed_s, records = what
            reads = tuple(Read(TopicPartition(t, p), offset, value.encode()) for t, p, offset, value in records)
            self.history.reads.append(Poll(client, reads, completed_s))
            positions = self.positions.setdefault(client, {})
            positions |= {read.partition: read.offset + 1 for read in reads}
        elif kind == CREATED:
            topic, invoked_s, completed_s = what
            self.created[topic] = completed_s - invoked_s
        elif kind == NOT_CREATED:
            self.not_created.append(what[0])
        elif kind == DELETING:
            self.deleting.add(what[0])
        else:
            assert kind == LATEST, kind
            client, topic, partition, offset, invoked_s, completed_s = what
            latest = Latest(client, TopicPartition(topic, partition), offset, invoked_s, completed_s)
            self.history.latest.append(latest)
