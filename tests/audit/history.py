"""What the leaders wrote: batches of every kind, plain and compressed, of idempotent producers and of transactions."""

import random
from dataclasses import dataclass, replace
from functools import cached_property

from replog.log.formats.batch import HEADER, HEADER_SIZE, parse_header, with_crc
from replog.log.formats.compression import compress
from replog.log.formats.control_batch import EndTransactionMarker, build_end_transaction_marker
from tests.replog.log.batches import client_batch, stamped

NOW = 1_700_000_000_000  # ms
CODECS = (0, 1, 2, 3, 4)  # none, gzip, snappy, lz4, zstd
IDEMPOTENT, TRANSACTIONAL = 7, (8, 9)  # producers


@dataclass(frozen=True)
class Entry:
    """A batch: its records (timestamp, value), who sent them, and what its leader gave it."""

    records: tuple[tuple[int, bytes], ...]
    epoch: int
    first: int
    codec: int = 0
    producer: int = -1
    sequence: int = -1
    commits: bool | None = None  # not None: a control marker, which ends the producer's transaction

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1

    @property
    def is_plain(self) -> bool:
        return self.producer < 0

    @cached_property
    def data(self) -> bytes:
        times, values = zip(*self.records, strict=True)
        if self.commits is not None:
            marker = EndTransactionMarker(self.commits, coordinator_epoch=0)
            batch = build_end_transaction_marker(
                marker, producer_id=self.producer, producer_epoch=0, timestamp=times[0]
            )
        else:
            fields = {"producer_id": self.producer, "base_sequence": self.sequence}
            fields |= {} if self.is_plain else {"producer_epoch": 0, "transactional": self.producer in TRANSACTIONAL}
            batch = _compressed(client_batch(*values, timestamps=times, **fields), self.codec)
        return stamped(batch, self.first, self.epoch)

    @cached_property
    def payload(self) -> bytes:
        """What is the same under any leader epoch."""
        return replace(self, epoch=0).data


def _compressed(batch: bytes, codec: int) -> bytes:
    """As a client would have sent it, but always the same bytes: gzip likes to write the time of day."""
    payload = compress(codec, batch[HEADER_SIZE:])
    header = parse_header(batch)
    changed = header._replace(
        length=header.length + len(payload) - (len(batch) - HEADER_SIZE), attributes=header.attributes | codec
    )
    return HEADER.pack(*with_crc(changed, payload)) + payload


def history(rng: random.Random, count: int) -> list[Entry]:
    """Batches of one to four records; timestamps wander, epochs rise now and then."""
    codecs = rng.choice(((0,), CODECS))
    producers = rng.choice(((-1,), (-1, IDEMPOTENT, *TRANSACTIONAL)))
    sequences = dict.fromkeys(producers, 0)
    open_ = set[int]()  # producers that have a transaction
    entries: list[Entry] = []
    epoch, offset, now = rng.randint(0, 3), 0, NOW
    for _ in range(count):
        if rng.random() < 0.15:
            epoch += rng.randint(1, 3)
        producer = rng.choice(producers)
        if producer in open_ and rng.random() < 0.4:
            open_.remove(producer)
            one = Entry(((now, b""),), epoch, offset, producer=producer, commits=rng.random() < 0.5)
        else:
            one = replace(entry(rng, offset, epoch, rng.randint(1, 4), now), codec=rng.choice(codecs))
            if producer >= 0:
                one = replace(one, producer=producer, sequence=sequences[producer])
                sequences[producer] += len(one.records)
            if producer in TRANSACTIONAL:
                open_.add(producer)
        entries.append(one)
        offset, now = one.last + 1, now + rng.randint(-300, 900)
    return entries


def entry(rng: random.Random, first: int, epoch: int, records: int, now: int) -> Entry:
    """A plain one."""
    return Entry(
        tuple((now + rng.randint(0, 400), rng.randbytes(rng.randint(4, 60))) for _ in range(records)), epoch, first
    )
