"""The metadata store in etcd: chunks of records, and a head that says which of them count.

A commit writes its chunks, which do not count yet. Then one transaction replaces the head and writes the last chunk, if
the head is still the one that was read, and this controller still leads: the leader's key has the create revision of
its election. Chunks that a crash left are deleted with the next head. A reader sees a head and its chunks at one
revision.

The chunks are a ring. When too many stored records count no more, those of the oldest chunks that count are written
again before a commit, and these chunks are deleted; at most twice as many bytes as the commit writes."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from random import Random

from crc32c import crc32c
from google.protobuf.message import DecodeError

from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.v1 import etcd_pb2
from replog.rpc.v1 import metadata_pb2 as pb
from replog.rpc.v1.etcd_store_pb2 import StoreChunk, StoreHead
from replog.server.controller.etcd.client import UNSURE, Caller, Keys, changed_at, created_at, delete, get, only, put
from replog.server.controller.store import LeadershipLostError, VersionConflictError
from replog.server.controller.watchers import prefix_of

FORMAT = 1
CHUNK_BYTES = 512 << 10  # two of them and a head fit etcd's 1.5 MiB for one request
SLACK_BYTES = 1 << 20  # how much dead records may take besides as much as live ones
PAGE = 32  # chunks of a read: 16 MiB
CLEANED_AT_ONCE = 100  # chunks
_CRC_BYTES = 4
_EXCHANGED = "etcd has not what was read there: it was restored from a copy; reading everything again"


class EtcdStore:
    """A store below a prefix of etcd. Call `load` first, and `commit` only as leader, with `epoch` set."""

    def __init__(self, etcd: Caller, prefix: str, rng: Random, leads: Callable[[], bool] = lambda: True) -> None:
        """A commit is tried while `leads` returns True: while this controller may believe that it leads."""
        self.epoch = 0  # the create revision of the leader's key
        self._etcd = etcd
        self._keys = Keys(prefix)
        self._rng = rng
        self._leads = leads
        self._head: StoreHead | None = None
        self._history_id = b""  # the newest lineage's that was read or written
        self._revision = 0  # the head's
        self._live = LiveRecords()

    # -- reading

    async def load(self) -> list[pb.MetadataRecord]:
        """Load like `MetadataStore.load`. Raises NETWORK_EXCEPTION or REQUEST_TIMED_OUT if no etcd answers."""
        answer = await self._etcd.call(methods.EtcdKV["range"], etcd_pb2.RangeRequest(key=self._keys.head))
        stored = only(answer)
        if stored is None:
            raise self._error(
                "is not there. If metadata.etcd.endpoints or metadata.etcd.prefix are wrong, mend that; if it is lost, "
                "restore etcd from a copy. Only a new cluster begins with: replog controller format"
            )
        head, known = self._parsed_head(stored.value), self._head
        if known is not None and known.next_chunk < head.first_chunk:
            raise LeadershipLostError("this controller is so far behind that it must read everything again")
        if known is not None and head.version < known.version:
            raise LeadershipLostError(_EXCHANGED)
        first = head.first_chunk if known is None else known.next_chunk
        chunks = await self._read(first, head.next_chunk, answer.header.revision)
        for number, value in chunks.items():
            self._live.add(number, len(value), self._parsed(number, value))
        self._live.drop_before(head.first_chunk)
        records: Iterable[pb.MetadataRecord] = chain.from_iterable(
            self._parsed(number, value).records for number, value in chunks.items()
        )
        if known is None:
            records = self._live.counting(records)
        else:
            records = [record for record in records if record.version > known.version]
        news = sorted(records, key=lambda record: record.version)
        history_id = _history_id(news) or self._history_id
        if known is not None and head.history_id not in (b"", history_id):
            raise LeadershipLostError(_EXCHANGED)
        self._head, self._revision, self._history_id = head, stored.mod_revision, history_id
        return news

    async def _read(self, first: int, end: int, revision: int = 0) -> dict[int, bytes]:
        """Return all chunks from `first` to before `end`, by number. Raises KAFKA_STORAGE_ERROR if one is missing."""
        values: dict[int, bytes] = {}
        more = True
        while more and first < end:
            request = etcd_pb2.RangeRequest(
                key=self._keys.chunk(first), range_end=self._keys.chunk(end), limit=PAGE, revision=revision
            )
            answer = await self._etcd.call(methods.EtcdKV["range"], request)
            page = {n: each.value for n, each in enumerate(answer.kvs, first) if self._keys.number(each.key) == n}
            values |= page
            first += len(page)
            more = answer.more and len(page) == len(answer.kvs)  # otherwise it would ask for a missing chunk for ever
        if first < end:
            raise self._error(f"is damaged: chunk {first} is not there; restore etcd from a copy")
        return values

    def _parsed_head(self, value: bytes) -> StoreHead:
        try:
            head = StoreHead.FromString(value)
        except DecodeError:
            raise self._error("has a head that is none; is the prefix somebody else's?") from None
        if head.format != FORMAT:
            raise self._error(f"has format {head.format}, not {FORMAT}; start the release of replog that wrote it")
        return head

    def _parsed(self, number: int, value: bytes) -> StoreChunk:
        try:
            chunk = StoreChunk.FromString(value[_CRC_BYTES:])
            sound = _crc(value[_CRC_BYTES:]) == value[:_CRC_BYTES]
        except DecodeError:
            sound = False
        if not sound:
            raise self._error(f"is damaged: chunk {number} does not match its checksum; restore etcd from a copy")
        return chunk

    # -- writing

    async def create(self, records: Sequence[pb.MetadataRecord]) -> None:
        """Make a store of these records, in version order; a crash leaves none.

        Raises KAFKA_STORAGE_ERROR if one exists, also the wanted one if an answer was lost, or is being made by another
        process; and as `load`."""
        chunks = list(_in_chunks(records, (), 0))
        head = StoreHead(
            format=FORMAT,
            version=records[-1].version,
            first_chunk=0,
            next_chunk=len(chunks),
            history_id=_history_id(records),
        )
        *before, last = (put(self._keys.chunk(number), _encoded(chunk)) for number, chunk in enumerate(chunks))
        begun = 0  # the revision of the first chunk: nobody else has written one since
        for operations in (*([operation] for operation in before), self._with_head(last, head)):
            compare = [created_at(self._keys.head, 0)]
            compare += [changed_at(self._keys.chunk(0), begun)] if begun else []
            request = etcd_pb2.TxnRequest(compare=compare, success=operations)
            answer = await self._etcd.call(methods.EtcdKV["txn"], request)
            if not answer.succeeded:
                raise ErrorCode.KAFKA_STORAGE_ERROR.error(
                    f"there is a metadata store already, or somebody else makes one: {self._keys.prefix} in etcd (if "
                    "etcd was away just now, it may be the one that was wanted)"
                )
            begun = begun or answer.header.revision

    def _with_head(self, last: etcd_pb2.RequestOp, head: StoreHead) -> list[etcd_pb2.RequestOp]:
        """Return the operations by which chunks count. They delete those that a crash left."""
        left = delete(self._keys.chunk(head.next_chunk), self._keys.after_chunks)
        return [last, put(self._keys.head, head.SerializeToString()), left]

    async def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int:
        """Commit like `MetadataStore.commit`.

        Raises LeadershipLostError if this controller leads no longer, or cannot find out whether the commit counts
        while it leads, or if etcd refuses a part after an earlier one."""
        known = self._head
        assert known is not None, "load first"
        if known.version != expected_version:
            raise VersionConflictError(expected_version, known.version)
        if not records:
            return expected_version
        chunks = list(_in_chunks(records, forgotten, expected_version))
        for _ in range(2 * len(chunks)):
            if not await self._clean():
                break
        await self._write(chunks, expected_version + len(records))
        return expected_version + len(records)

    async def _clean(self) -> bool:
        """Write the records that count in the oldest chunks again, and delete these. False: no need, or no answer."""
        numbers = self._live.to_clean(CHUNK_BYTES, SLACK_BYTES)
        if not numbers:
            return False
        assert self._head is not None
        try:
            values = await self._read(numbers[0], numbers[-1] + 1)
        except ReplogError as error:
            if error.code in UNSURE:
                return False
            raise
        records = (self._parsed(number, value).records for number, value in values.items())
        kept = self._live.counting(chain.from_iterable(records))
        await self._write([StoreChunk(records=kept)], self._head.version, numbers[-1] + 1)
        return True

    async def _write(self, chunks: Sequence[StoreChunk], version: int, first_chunk: int | None = None) -> None:
        """Write chunks, and a head by which they count and those before `first_chunk` do not."""
        known = self._head
        assert known is not None
        values = dict(enumerate(map(_encoded, chunks), known.next_chunk))
        head = StoreHead(
            format=FORMAT,
            version=version,
            first_chunk=known.first_chunk if first_chunk is None else first_chunk,
            next_chunk=known.next_chunk + len(chunks),
            epoch=self.epoch,
            history_id=_history_id(record for chunk in chunks for record in chunk.records) or self._history_id,
        )
        *before, last = (put(self._keys.chunk(number), value) for number, value in values.items())
        for number, operation in enumerate(before):
            await self._carry_out([operation], first=number == 0)
        with_head = self._with_head(last, head)
        if head.first_chunk > known.first_chunk:
            with_head.append(delete(self._keys.chunk(known.first_chunk), self._keys.chunk(head.first_chunk)))
        self._revision = await self._carry_out(with_head, first=not before, head=head)
        self._head, self._history_id = head, head.history_id
        for (number, value), chunk in zip(values.items(), chunks, strict=True):
            self._live.add(number, len(value), chunk)
        self._live.drop_before(head.first_chunk)

    async def _carry_out(
        self, operations: Sequence[etcd_pb2.RequestOp], *, first: bool, head: StoreHead | None = None
    ) -> int:
        """Have etcd do these if this controller leads and nobody has committed since. Return the revision.

        A try without an answer is repeated: the comparisons let it happen once, and a new head shows whose it is.
        If it is the `first` of a commit and etcd refuses it, raises KAFKA_STORAGE_ERROR."""
        request = etcd_pb2.TxnRequest(
            compare=[created_at(self._keys.leader, self.epoch), changed_at(self._keys.head, self._revision)],
            success=operations,
            failure=[get(self._keys.head)],
        )
        backoff = Backoff(self._rng, base_ms=20, max_ms=500)
        while self._leads():
            try:
                answer = await self._etcd.call(methods.EtcdKV["txn"], request)
            except ReplogError as error:
                if error.code not in UNSURE and first:
                    raise self._error(f"refuses a commit: {error.message}") from error
                if error.code not in UNSURE:
                    raise LeadershipLostError(f"etcd refuses a commit of which it has a part: {error}") from error
                first = False
                await asyncio.sleep(backoff.next_s())
                continue
            if answer.succeeded:
                return int(answer.header.revision)
            stored = only(answer.responses[0].response_range)
            if stored is None:
                raise LeadershipLostError(f"the metadata store {self._keys.prefix} is gone from etcd")
            if head is not None and stored.value == head.SerializeToString():
                return stored.mod_revision
            newest = self._parsed_head(stored.value)
            if stored.mod_revision == self._revision or newest.epoch > self.epoch:
                raise LeadershipLostError("another controller leads, or none")
            assert self._head is not None
            raise VersionConflictError(self._head.version, newest.version)
        raise LeadershipLostError("the lease is over, and nobody knows whether the last commit counts")

    async def close(self) -> None:
        """Forget everything, so that the next `load` reads all. Does not close the client."""
        self._head, self._live, self._history_id = None, LiveRecords(), b""

    def _error(self, what: str) -> ReplogError:
        where = ",".join(self._etcd.endpoints)
        return ErrorCode.KAFKA_STORAGE_ERROR.error(f"metadata store {self._keys.prefix} in etcd at {where} {what}")


def _history_id(records: Iterable[pb.MetadataRecord]) -> bytes:
    """Return the history id of the last lineage among these records; b"" if there is none."""
    newest = b""
    for record in records:
        if record.HasField("lineage") and record.lineage.histories:
            newest = record.lineage.histories[-1].history_id
    return newest


def _encoded(chunk: StoreChunk) -> bytes:
    content = chunk.SerializeToString()
    return _crc(content) + content


def _crc(content: bytes) -> bytes:
    crc: int = crc32c(content)
    return crc.to_bytes(_CRC_BYTES, "big")


def _in_chunks(
    records: Sequence[pb.MetadataRecord], forgotten: Sequence[str], forgotten_up_to: int
) -> Iterator[StoreChunk]:
    """Yields chunks, forgotten keys first. A record is always much smaller than a chunk."""
    chunk, size = StoreChunk(forgotten_up_to=forgotten_up_to), 0
    items: Iterable[str | pb.MetadataRecord] = chain[str | pb.MetadataRecord](forgotten, records)
    for item in items:
        item_size = len(item.encode()) if isinstance(item, str) else item.ByteSize()
        if size and size + item_size + 8 > CHUNK_BYTES:
            yield chunk
            chunk, size = StoreChunk(forgotten_up_to=forgotten_up_to), 0
        if isinstance(item, str):
            chunk.forgotten.append(item)
        else:
            chunk.records.append(item)
        size += item_size + 8
    yield chunk


class LiveRecords:
    """The newest record of every key counts until its key is forgotten. Chunks come and go oldest first."""

    def __init__(self) -> None:
        self._chunks: dict[int, int] = {}  # the size of each chunk, by number
        self._stored_bytes = 0
        self._live_bytes = 0
        self._live: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)  # version, bytes; by prefix, key

    def add(self, number: int, size: int, chunk: StoreChunk) -> None:
        """Take in the next chunk. The keys that it forgets are older than its own records."""
        self._chunks[number] = size
        self._stored_bytes += size
        for key in chunk.forgotten:
            near = self._live[prefix_of(key)]
            for each in list(near) if key.endswith("/") else near.keys() & {key}:
                if near[each][0] <= chunk.forgotten_up_to:
                    self._live_bytes -= near.pop(each)[1]
            if not near:
                del self._live[prefix_of(key)]
        for record in chunk.records:
            near = self._live[prefix_of(record.key)]
            version, old_size = near.get(record.key, (0, 0))
            if record.version > version:
                record_size = record.ByteSize()
                near[record.key] = record.version, record_size
                self._live_bytes += record_size - old_size

    def drop_before(self, number: int) -> None:
        """Drop chunks older than `number`. Their records that still count were added again."""
        while self._chunks and (oldest := next(iter(self._chunks))) < number:
            self._stored_bytes -= self._chunks.pop(oldest)

    def counting(self, records: Iterable[pb.MetadataRecord]) -> list[pb.MetadataRecord]:
        return [r for r in records if self._live.get(prefix_of(r.key), {}).get(r.key, (0, 0))[0] == r.version]

    def to_clean(self, at_once: int, slack: int) -> list[int]:
        """Return the oldest chunks, of at most `at_once` bytes but at least one, if more than half of what is stored,
        and `slack` bytes besides, count no more."""
        chosen: list[int] = []
        if self._stored_bytes <= 2 * self._live_bytes + slack:
            return chosen
        size = 0
        for number, chunk_size in self._chunks.items():
            size += chunk_size
            if chosen and (size > at_once or len(chosen) == CLEANED_AT_ONCE):
                break
            chosen.append(number)
        return chosen
