"""What every metadata store promises: the one on SQLite, the one on a real etcd, and that on the simulator's etcd."""

import pytest

from replog.errors import ErrorCode
from replog.server.controller.store import VersionConflictError
from tests.replog.server.controller.stores import SqliteStores, etcd_stores, named, records, simulated_etcd


@pytest.fixture(params=["sqlite", "etcd", "simulated etcd"])
async def stores(request, tmp_path):
    """Not formatted yet."""
    if request.param == "sqlite":
        stores = SqliteStores(tmp_path)
        yield stores
        await stores.close()
    elif request.param == "etcd":
        async with etcd_stores(request.getfixturevalue("etcd")) as stores:
            yield stores
    else:
        async with simulated_etcd() as address, etcd_stores(address) as stores:
            yield stores


@pytest.fixture
async def store(stores):
    """It has one record, the cluster's."""
    await stores.create(records("c"))
    return await stores.opened()


async def read_again(stores):
    """What a later process finds."""
    again = stores.store() if hasattr(stores, "store") else await stores.opened()
    return await again.load()


async def test_without_a_format_there_is_no_store(stores, refused):
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "is not there", "replog controller format"):
        await stores.opened()


async def test_a_store_is_made_once(stores, refused):
    await stores.create(records("c"))
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "there is a metadata store already"):
        await stores.create(records("d"))


async def test_what_was_committed_is_there_after_reopening_newest_per_key_in_version_order(stores, store):
    assert await store.commit(1, records(1, 2, after=1)) == 3
    assert await store.commit(3, records(1, after=3)) == 4
    assert await store.commit(4, records("-broker/2", after=4)) == 5
    found = await read_again(stores)
    assert [(r.version, r.key, r.WhichOneof("value")) for r in found] == [
        (1, "cluster", "cluster"),
        (4, "broker/1", "broker"),
        (5, "broker/2", None),
    ]
    assert found[1] == records(1, after=3)[0]


@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_a_commit_against_another_version_writes_nothing(stores, store, expected):
    await store.commit(1, records(1, after=1))
    with pytest.raises(VersionConflictError, match=f"at version 2, not {expected}"):
        await store.commit(expected, records(9, after=expected))
    assert await store.commit(2, records(9, after=2)) == 3
    assert [r.key for r in await read_again(stores)] == ["cluster", "broker/1", "broker/9"]


async def test_a_commit_of_any_size_is_one(stores, store):
    many = [f"-topic/{'x' * 240}{number}" for number in range(12_000)]  # 3 MB
    assert await store.commit(1, records(*many, after=1)) == 12_001
    assert await store.commit(12_001, records(1, after=12_001)) == 12_002
    found = await read_again(stores)
    assert [r.version for r in found] == list(range(1, 12_003))


async def test_what_is_forgotten_goes_in_the_commit_that_says_so(stores, store):
    await store.commit(1, records("-topic/a", "-topic/b", after=1))
    with pytest.raises(VersionConflictError):
        await store.commit(2, records(1, after=2), ["topic/a"])
    assert await store.commit(3, records(1, after=3), ["topic/a", "topic/b"]) == 4
    assert [record.version for record in await read_again(stores)] == [1, 4]


async def test_thousands_may_be_forgotten_at_once(stores, store):
    keys = [f"topic/{'x' * 240}{number}" for number in range(5000)]
    await store.commit(1, named(*keys, after=1))
    await store.commit(5001, records(1, after=5001), keys)
    assert [record.key for record in await read_again(stores)] == ["cluster", "broker/1"]


async def test_all_keys_that_begin_with_what_is_forgotten_go_and_none_besides(stores, store):
    kept = ["partition/s/0", "partition/t-0/0", "partition/t.x/0", "partition/t0/0", "partition/tt/0", "topic/t"]
    await store.commit(1, named(*kept, "partition/t/0", "partition/t/9999", after=1))
    await store.commit(9, records(1, after=9), ["partition/t/"])
    assert [record.key for record in await read_again(stores)] == ["cluster", *kept, "broker/1"]


async def test_a_key_that_is_set_by_the_commit_that_forgets_it_is_there(stores, store):
    await store.commit(1, records(1, 2, after=1))
    await store.commit(3, records(1, after=3), ["broker/1", "broker/2"])
    assert [(r.key, r.version) for r in await read_again(stores)] == [("cluster", 1), ("broker/1", 4)]
