"""What is etcd's own; what every store promises is in test_stores.py."""

import asyncio
from contextlib import suppress

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.v1 import etcd_pb2, metadata_pb2
from replog.rpc.v1.etcd_store_pb2 import StoreChunk
from replog.server.controller.etcd import store as etcd_store
from replog.server.controller.etcd.client import delete, put
from replog.server.controller.etcd.store import CLEANED_AT_ONCE, LiveRecords
from replog.server.controller.store import LeadershipLostError, VersionConflictError
from tests.replog.server.controller.stores import EtcdStores, etcd_stores, lineage, named, records, simulated_etcd

BIG = [f"topic/{'x' * 240}{number}" for number in range(6000)]  # 1.5 MB, so several chunks


@pytest.fixture
async def stores():
    async with simulated_etcd() as address, etcd_stores(address) as stores:
        await stores.create(records("c"))
        yield stores


class Unlucky:
    """A client that loses the answers of its next writes, which are carried out, or not. None: nothing goes wrong."""

    def __init__(self, client, carried_out=(), error=ErrorCode.REQUEST_TIMED_OUT):
        self.endpoints = client.endpoints
        self.writes = 0
        self._client = client
        self._carried_out = list(carried_out)
        self._error = error

    async def call(self, method, request):
        is_write = isinstance(request, etcd_pb2.TxnRequest)
        self.writes += is_write
        carried_out = self._carried_out.pop(0) if is_write and self._carried_out else None
        answer = None if carried_out is False else await self._client.call(method, request)
        if carried_out is not None:
            raise ReplogError(self._error, "no answer")
        return answer


async def keys_of(stores):
    return [record.key for record in await stores.store().load()]


async def test_who_leads_no_longer_commits_nothing(stores):
    old = await stores.opened()
    new = await stores.opened()
    with pytest.raises(LeadershipLostError, match="another controller leads"):
        await old.commit(1, records(1, after=1))
    with pytest.raises(LeadershipLostError):
        await old.commit(1, named(*BIG, after=1))
    assert await new.commit(1, records(2, after=1)) == 2
    with pytest.raises(LeadershipLostError, match="another controller leads"):
        await old.commit(1, records(1, after=1))
    assert await keys_of(stores) == ["cluster", "broker/2"]


@pytest.mark.parametrize("carried_out", [[True], [False], [True, False], [False, True], [False, False, True]])
@pytest.mark.parametrize("size", [1, 6000])
async def test_a_commit_whose_answer_is_lost_counts_once(stores, carried_out, size):
    store = await stores.opened()
    store._etcd = unlucky = Unlucky(stores.client, carried_out)
    assert await store.commit(1, named(*BIG[:size], after=1)) == 1 + size
    assert unlucky.writes > len(carried_out), "it asked again"
    assert await store.commit(1 + size, records(9, after=1 + size)) == 2 + size
    assert await keys_of(stores) == ["cluster", *BIG[:size], "broker/9"]


async def test_a_lease_that_ends_while_nobody_answers_ends_the_commit(stores):
    leads = iter([True, True, False])
    store = await stores.opened(leads=lambda: next(leads))
    store._etcd = Unlucky(stores.client, [False] * 9)
    with pytest.raises(LeadershipLostError, match="nobody knows"):
        await store.commit(1, records(1, after=1))


async def test_what_etcd_refuses_at_once_is_a_storage_error_and_changes_nothing(stores, refused):
    store = await stores.opened()
    store._etcd = Unlucky(stores.client, [False], ErrorCode.UNKNOWN_SERVER_ERROR)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "refuses", stores.prefix):
        await store.commit(1, records(1, after=1))
    assert await store.commit(1, records(2, after=1)) == 2
    assert await keys_of(stores) == ["cluster", "broker/2"]


async def test_what_a_crash_left_of_a_commit_counts_for_nothing_and_goes_with_the_next_one(stores):
    store = await stores.opened()
    store._etcd = Unlucky(stores.client, [None, None, False], ErrorCode.UNKNOWN_SERVER_ERROR)
    with pytest.raises(LeadershipLostError, match="has a part"):
        await store.commit(1, named(*BIG, after=1))
    left = [key for key in await stores.stored() if key.startswith("chunk/")]
    assert len(left) == 3, f"one that counts and two that do not: {left}"
    assert await keys_of(stores) == ["cluster"]
    after_crash = await stores.opened()
    assert await after_crash.commit(1, records(7, after=1)) == 2
    assert await keys_of(stores) == ["cluster", "broker/7"]
    assert len([key for key in await stores.stored() if key.startswith("chunk/")]) == 2


async def test_a_prefix_that_somebody_else_writes_to_is_noticed(stores):
    store = await stores.opened()
    head = etcd_pb2.TxnRequest(success=[put(stores.keys.head, (await stores.stored())["head"])])
    await stores.client.call(methods.EtcdKV["txn"], head)
    with pytest.raises(VersionConflictError):
        await store.commit(1, records(1, after=1))


async def test_what_is_stored_stays_in_proportion_to_what_counts(stores, monkeypatch):
    monkeypatch.setattr(etcd_store, "SLACK_BYTES", 20_000)
    monkeypatch.setattr(etcd_store, "CHUNK_BYTES", 5_000)
    store = await stores.opened()
    version, most = 1, 0
    version = await store.commit(1, named(*BIG[:40], after=1))  # 10 kB that stay
    for turn in range(200):
        keys = [f"partition/{'t' * 200}{turn % 7}/{number}" for number in range(turn % 40)] + ["broker/1"]
        gone = [f"partition/{'t' * 200}{turn % 7}/"]
        version = await store.commit(version, named(*keys, after=version), gone)
        most = max(most, sum(map(len, (await stores.stored()).values())))
    live = sum(len(key) + 8 for key in await keys_of(stores))
    assert most < 3 * max(live, 60_000), f"{most} bytes stored, {live} of them count"
    found = await stores.store().load()
    assert [record.key for record in found if record.key.startswith("topic/")] == BIG[:40]
    last = {
        key for turn in range(193, 200) for key in (f"partition/{'t' * 200}{turn % 7}/{n}" for n in range(turn % 40))
    }
    assert {record.key for record in found if record.key.startswith("partition/")} == last


async def test_who_loads_again_gets_what_was_committed_since_also_through_cleanings(stores, monkeypatch):
    monkeypatch.setattr(etcd_store, "SLACK_BYTES", 5_000)
    monkeypatch.setattr(etcd_store, "CHUNK_BYTES", 2_000)
    store, standby = await stores.opened(), stores.store()
    seen = {record.key: record.version for record in await standby.load()}
    version = 1
    for turn in range(200):
        version = await store.commit(version, named(f"topic/{'x' * 200}{turn % 9}", "broker/1", after=version))
        if turn % 3 == 0:
            news = await standby.load()
            assert [record.version for record in news] == sorted(record.version for record in news)
            assert len(news) in (2, 6), "two of each commit"
            seen.update((record.key, record.version) for record in news)
    seen.update((record.key, record.version) for record in await standby.load())
    assert seen == {record.key: record.version for record in await stores.store().load()}
    assert await standby.load() == []


async def test_who_was_away_too_long_must_read_everything_again(stores, monkeypatch):
    monkeypatch.setattr(etcd_store, "SLACK_BYTES", 5_000)
    monkeypatch.setattr(etcd_store, "CHUNK_BYTES", 2_000)
    store, standby = await stores.opened(), stores.store()
    await standby.load()
    for version in range(1, 200):
        await store.commit(version, named(f"topic/{'x' * 200}", after=version))
    with pytest.raises(LeadershipLostError, match="everything again"):
        await standby.load()


async def test_a_reader_sees_whole_commits_while_others_are_made(stores):
    store = await stores.opened()

    async def commit():
        version = 1
        for _ in range(20):
            version = await store.commit(version, named(*(f"topic/{'x' * 200}{n}" for n in range(200)), after=version))

    committing = asyncio.create_task(commit())
    reads = 0
    while not committing.done():
        found = await stores.store().load()
        assert len(found) in (1, 201), "a part of a commit"
        assert found[-1].version - found[0].version == (0 if len(found) == 1 else found[-1].version - 1)
        assert len({(record.version - 2) // 200 for record in found[1:]}) <= 1
        reads += 1
    await committing
    assert reads > 2


async def test_an_etcd_that_was_exchanged_for_an_older_one_is_read_again(stores):
    """A standby that was away meanwhile has followed what nobody has any more: versions alone would not tell."""
    store, standby = await stores.opened(), stores.store()
    await store.commit(1, [lineage(b"a", 2)])
    older = await stores.stored()
    await store.commit(2, records("d", "e", after=2))
    await standby.load()
    await stores.put_back(older)
    with pytest.raises(LeadershipLostError, match="restored from a copy"):
        await standby.load()
    ahead = stores.store()
    await ahead.load()
    await stores.put_back(older)
    other = await stores.opened()
    version = await other.commit(2, [lineage(b"b", 3)])
    await ahead.close()
    assert (await ahead.load())[-1].version == version
    for _ in range(3):
        version = await other.commit(version, records("f", after=version))
    await stores.put_back(older)
    another = await stores.opened()
    version = await another.commit(2, [lineage(b"c", 3)])
    for _ in range(3):
        version = await another.commit(version, records("g", after=version))
    with pytest.raises(LeadershipLostError, match="restored from a copy"):
        await ahead.load()
    await ahead.close()
    assert [record.key for record in await ahead.load()] == ["lineage", "cluster"]


@pytest.mark.parametrize("carried_out", [True, False])
async def test_who_makes_a_store_and_hears_no_answer_may_try_again(stores, carried_out):
    for made in (records("mine"), named(*BIG)):
        fresh = EtcdStores(stores.client)
        store = fresh.store()
        store._etcd = Unlucky(stores.client, [None] * (len(made) > 1) + [carried_out])
        with pytest.raises(ReplogError, match="no answer"):
            await store.create(made)
        with suppress(ReplogError):  # the first try may have made it
            await store.create(made)
        assert await fresh.store().load() == made
        with pytest.raises(ReplogError, match="already"):
            await fresh.store().create(records("another"))


async def test_of_two_who_make_a_store_at_once_one_is_refused_and_the_other_ones_is_whole(stores):
    class Meanwhile(Unlucky):
        """Somebody else makes it before the second write."""

        async def call(self, method, request):
            if self.writes == 1:
                self.writes += 1
                await fresh.store().create(others)
            return await super().call(method, request)

    for others in (records("other"), named(*BIG, "theirs")):
        fresh = EtcdStores(stores.client)
        store = fresh.store()
        store._etcd = Meanwhile(stores.client)
        with pytest.raises(ReplogError, match="already"):
            await store.create(named(*BIG))
        assert await fresh.store().load() == others


async def test_who_has_begun_to_make_a_store_goes_on_only_if_nobody_else_has(stores, refused):
    fresh = EtcdStores(stores.client)
    store, other = fresh.store(), fresh.store()
    other._etcd = Unlucky(stores.client, [None, False], ErrorCode.UNKNOWN_SERVER_ERROR)

    class Meanwhile(Unlucky):
        """Somebody else begins to before the second write, and is killed."""

        async def call(self, method, request):
            if self.writes == 1:
                with pytest.raises(ReplogError):
                    await other.create(named(*BIG, "theirs"))
            return await super().call(method, request)

    store._etcd = Meanwhile(stores.client)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "somebody else", fresh.prefix):
        await store.create(named("mine", *BIG[1:]))
    await fresh.store().create(named(*BIG))
    assert await fresh.store().load() == named(*BIG)


async def test_a_chunk_that_is_missing_before_several_pages_is_named(stores, refused, monkeypatch):
    monkeypatch.setattr(etcd_store, "PAGE", 1)
    store = await stores.opened()
    for version in range(1, 4):
        await store.commit(version, records(version, after=version))
    gone = delete(stores.keys.chunk(1), stores.keys.chunk(2))
    await stores.client.call(methods.EtcdKV["txn"], etcd_pb2.TxnRequest(success=[gone]))
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "chunk 1 is not there"):
        async with asyncio.timeout(20):
            await stores.store().load()


async def test_a_flipped_bit_is_found(stores, refused):
    store = await stores.opened()
    await store.commit(1, records("d", after=1))
    name, value = next((k, v) for k, v in (await stores.stored()).items() if k.endswith("1"))
    damaged = put(stores.prefix.encode() + name.encode(), value[:-1] + bytes([value[-1] ^ 1]))
    await stores.client.call(methods.EtcdKV["txn"], etcd_pb2.TxnRequest(success=[damaged]))
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "chunk 1", "checksum"):
        await stores.store().load()


BYTES = 100  # of one chunk


def test_the_oldest_chunks_are_cleaned_some_at_a_time():
    live = LiveRecords()
    for number in range(2 * CLEANED_AT_ONCE):
        live.add(number, BYTES, StoreChunk(records=[metadata_pb2.MetadataRecord(key="topic/t", version=number + 1)]))
    assert live.to_clean(at_once=10 * BYTES, slack=0) == list(range(10))
    assert live.to_clean(at_once=1, slack=0) == [0]
    assert live.to_clean(at_once=1 << 30, slack=0) == list(range(CLEANED_AT_ONCE))
    assert live.to_clean(at_once=1 << 30, slack=1 << 30) == []


def test_nothing_is_kept_of_a_deleted_topics_partitions():
    live, partition = LiveRecords(), metadata_pb2.MetadataRecord(key="partition/t/0", version=1)
    live.add(0, BYTES, StoreChunk(records=[partition]))
    assert list(live.counting([partition])) == [partition]
    live.add(1, BYTES, StoreChunk(forgotten=["partition/t/"], forgotten_up_to=1))
    assert list(live.counting([partition])) == []
    assert not live._live
