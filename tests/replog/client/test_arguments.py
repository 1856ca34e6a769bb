"""Wrong arguments are named, in one sentence, whatever they would have broken."""

import time
from typing import Any

import pytest

from replog.client import Admin, Consumer, Producer, ReplogError
from replog.client.arguments import check_record

RECORDS: list[tuple[dict[str, Any], str]] = [
    ({"value": "text"}, r"value must be bytes or None; encode it, not str \('text'\)"),
    ({"value": 5}, r"value must be bytes or None, not int \(5\)"),
    ({"key": "k"}, r"key must be bytes or None; encode it"),
    ({"topic": b"orders"}, r"topic must be text, not bytes"),
    ({"partition": "x"}, r"partition must be a whole number"),
    ({"timestamp_ms": time.time() * 1000}, r"timestamp_ms must be a whole number, not float"),
    ({"timestamp_ms": 0.0}, r"timestamp_ms must be a whole number, not float"),
    ({"headers": {"a": b"b"}}, r"headers must be a list of \(name, bytes\), not dict"),
    ({"headers": {"id": b"1"}}, r"headers must be a list of \(name, bytes\), not dict"),
    ({"headers": [("a", "b")]}, r"each of headers must be \(text, bytes or None\), not tuple"),
    ({"headers": [(b"a", b"b")]}, r"each of headers must be \(text, bytes or None\), not tuple"),
]


async def test_a_record_of_wrong_types_is_refused_by_name_and_spoils_no_batch(one_broker):
    async with Producer(one_broker, linger_ms=60_000) as producer:
        for _ in range(2):  # with no batch, and with an open one
            for wrong, said in RECORDS:
                with pytest.raises(TypeError, match=said):
                    await producer.send(**{"topic": "t", "value": b"v", **wrong})
            good = await producer.send("t", b"good", headers=[("a", None)])
        for wrong in ([b"a", "b"], ["b"]):
            with pytest.raises(TypeError, match=r"values? must be bytes or None; encode"):
                await producer.send_many("t", wrong)  # type: ignore[arg-type]
        await producer.flush()
        assert (await good).offset == 1


def test_what_is_right_is_not_refused():
    check_record("t", memoryview(b"x"), bytearray(b"k"), 1, 2, (("a", b"b"), ["c", None]))


@pytest.mark.parametrize("options", [{"linger_ms": "5"}, {"batch_size": None}, {"max_block_ms": True}])
def test_a_setting_that_is_no_number_is_named(options):
    (name,) = options
    with pytest.raises(TypeError, match=f"{name} must be a number, not "):
        Producer("127.0.0.1:1", **options)


def test_a_negative_linger_is_refused():
    with pytest.raises(ReplogError, match="linger_ms=-1"):
        Producer("127.0.0.1:1", linger_ms=-1)


async def test_partitions_and_settings_are_named():
    async with Consumer("127.0.0.1:1") as consumer, Admin("127.0.0.1:1") as admin:
        with pytest.raises(TypeError, match=r"partitions must be a list of \(topic, number\), not str \('orders'\)"):
            consumer.assign("orders")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"a partition must be \(topic, number\), not str \('orders'\)"):
            consumer.assign(["orders"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match=r"configs\['retention.ms'\] must be text, not int \(5\)"):
            await admin.create_topic("t", configs={"retention.ms": 5})  # type: ignore[dict-item]
        with pytest.raises(ReplogError, match="nothing is assigned; call assign first"):
            await consumer.fetch()
