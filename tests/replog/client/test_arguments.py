"""Wrong arguments are named, in one sentence, whatever they would have broken."""

import asyncio
import inspect
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from replog.client import Admin, Consumer, Producer, ReplogError
from replog.client.arguments import check_record, whole
from replog.client.records import decode_fetched
from replog.config.properties import MAX_INT, MAX_LONG
from replog.metadata.values import StandingAudit
from replog.topic import TopicPartition
from tests.replog.client.calls import CLIENTS, TP, calls, outcome

RECORDS: list[tuple[dict[str, Any], str]] = [
    ({"value": "text"}, r"value must be bytes or None; encode it, not str \('text'\)"),
    ({"value": 5}, r"value must be bytes or None, not int \(5\)"),
    ({"key": "k"}, r"key must be bytes or None; encode it"),
    ({"topic": b"orders"}, r"topic must be text, not bytes"),
    ({"partition": "x"}, r"partition must be a whole number"),
    ({"timestamp_ms": time.time() * 1000}, r"timestamp_ms must be a whole number, not float"),
    ({"timestamp_ms": 0.0}, r"timestamp_ms must be a whole number, not float"),
    ({"headers": {"id": b"1"}}, r"headers must be a list of \(name, bytes\), not dict"),
    ({"headers": 5}, r"headers must be a list of \(name, bytes\), not int"),
    ({"partition": True}, r"partition must be a whole number, not bool"),
    ({"timestamp_ms": True}, r"timestamp_ms must be a whole number, not bool"),
    ({"headers": [("a", "b")]}, r"each of headers must be \(text, bytes or None\), not tuple"),
    ({"headers": [("\ud800", b"b")]}, r"each of headers must be \(text, bytes or None\), not tuple"),
    ({"headers": [(b"a", b"b")]}, r"each of headers must be \(text, bytes or None\), not tuple"),
]


async def test_a_record_of_wrong_types_is_refused_by_name_and_spoils_no_batch(one_broker):
    async with Producer(one_broker, linger_ms=60_000) as producer:
        for _ in range(2):  # with no batch, and with an open one
            for wrong, said in RECORDS:
                with pytest.raises(TypeError, match=said):
                    await producer.send(**{"topic": "t", "value": b"v", **wrong})
            good = await producer.send("t", b"good", headers=[("a", None)])
        for wrong, said in (
            ([b"a", "b"], "each of values must be bytes or None; encode"),
            (["b"], "values? must be bytes or None; encode"),
            (b"ab", "values must be a list of bytes, not bytes"),
        ):
            with pytest.raises(TypeError, match=said):
                await producer.send_many("t", wrong)  # type: ignore[arg-type]
        await producer.flush()
        assert (await good).offset == 1


def test_what_is_right_is_not_refused():
    check_record("t", memoryview(b"x"), bytearray(b"k"), 1, 2, (("a", b"b"), ["c", None]))


@pytest.mark.parametrize("options", [{"linger_ms": "5"}, {"batch_size": None}, {"max_block_ms": True}])
def test_a_setting_that_is_no_number_is_named(options):
    (name,) = options
    with pytest.raises(TypeError, match=f"{name} must be a (whole )?number, not "):
        Producer("127.0.0.1:1", **options)


@pytest.mark.parametrize(
    ("client", "option", "wrong", "right"),
    [
        *((Producer, name, "utf8", "a function") for name in ("partitioner", "key_serializer", "value_serializer")),
        *((Consumer, name, 5, "a function") for name in ("key_deserializer", "value_deserializer")),
        (Producer, "enable_idempotence", "yes", "True or False"),
        (Consumer, "client_rack", 5, "text"),
    ],
)
def test_a_setting_of_another_type_is_named_when_the_client_is_made(client, option, wrong, right):
    with pytest.raises(TypeError, match=f"{option} must be {right}, not "):
        client("127.0.0.1:1", **{option: wrong})


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
def test_a_file_of_tls_that_is_no_path_is_named(client):
    with pytest.raises(ReplogError, match=r"INVALID_CONFIG: ssl\.truststore\.location=5: "):
        client("127.0.0.1:1", ssl_truststore_location=5)


@pytest.mark.parametrize("wrong", [None, 5, b"127.0.0.1:1"])
def test_a_bootstrap_that_is_no_list_of_addresses_is_named(wrong):
    with pytest.raises(TypeError, match=r"bootstrap must be a list of host:port, not "):
        Admin(wrong)
    with pytest.raises(ReplogError, match=r"bootstrap address 'None' is not host:port"):
        Admin(["127.0.0.1:1", None])  # type: ignore[list-item]


@pytest.mark.parametrize(("wrong", "error"), [(None, TypeError), ("1", TypeError), (math.nan, ReplogError)])
async def test_a_time_that_is_none_is_named_before_anything_waits_for_it(wrong, error):
    async with Consumer("127.0.0.1:1") as consumer:
        consumer.assign([TP])
        for call in (consumer.fetch(wrong), consumer.position(TP, wrong), consumer.partitions_for("t", wrong)):
            with pytest.raises(error, match="timeout_s"):
                await call
        with pytest.raises(error, match="timeout_s"):
            await consumer.end_offsets([TP], wrong)
    async with Producer("127.0.0.1:1") as producer:
        if wrong is not None:  # as long as deliveries may take
            with pytest.raises(error, match="timeout_s"):
                await producer.close(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "5", True])
async def test_a_number_of_records_is_at_least_one(wrong):
    async with Consumer("127.0.0.1:1") as consumer:
        consumer.assign([TP])
        for call in (consumer.fetch(0, wrong), consumer.fetch_many(0, wrong)):
            with pytest.raises((TypeError, ReplogError), match="max_records"):
                await call


async def test_a_pair_is_as_good_as_a_partition_also_where_it_has_a_value(one_broker):
    async with Consumer(one_broker) as consumer, Admin(one_broker) as admin:
        assert await consumer.offsets_for_times({("t", 0): 0}) == {TP: None}  # type: ignore[dict-item]
        assert await admin.delete_records({("t", 0): 0}) == {TP: 0}  # type: ignore[dict-item]
        assert "retention.ms" not in await admin.alter_topic_configs("t", None)  # type: ignore[arg-type]


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


class Three:
    """As numpy's whole numbers."""

    def __index__(self) -> int:
        return 3


async def test_whole_numbers_of_other_libraries_are_taken():
    three: Any = Three()
    async with Consumer("127.0.0.1:1") as consumer:
        consumer.assign([("t", three)])
        consumer.seek(("t", three), three)
        assert consumer.assignment == [TopicPartition("t", 3)]
        assert await consumer.position(("t", 3)) == 3
    with pytest.raises(TypeError, match=r"total must be a whole number, not float \(1.5\)"):
        await Admin("127.0.0.1:1").create_partitions("t", 1.5)  # type: ignore[arg-type]


def test_a_whole_number_that_the_protocol_does_not_have_is_named_with_its_value_and_range():
    for number, shown in ((MAX_INT + 1, "2147483648"), (10**5000, r"\(a number of 16610 bits\)")):
        with pytest.raises(ReplogError, match=f"INVALID_REQUEST: total={shown}: choose -2147483648 to 2147483647$"):
            whole("total", number)


@pytest.mark.parametrize(
    ("client", "option", "least", "most"),
    [
        (Producer, "batch_size", 1, 1 << 20),
        (Producer, "max_request_bytes", 1, 14 << 20),
        (Producer, "buffer_memory", 1, MAX_LONG),
        (Producer, "linger_ms", 0, MAX_LONG),
        (Producer, "max_block_ms", 1, MAX_LONG),
        (Producer, "delivery_timeout_ms", 1, MAX_LONG),
        (Producer, "request_timeout_ms", 1, MAX_INT),
        (Consumer, "fetch_min_bytes", 0, MAX_INT),
        (Consumer, "fetch_max_bytes", 1, MAX_INT),
        (Consumer, "fetch_max_wait_ms", 0, MAX_INT),
        (Consumer, "max_partition_fetch_bytes", 1, MAX_INT),
        (Consumer, "request_timeout_ms", 1, MAX_LONG),
        (Admin, "timeout_ms", 1, MAX_INT),
    ],
)
async def test_a_setting_beyond_its_range_is_named(client, option, least, most):
    for number in (least - 1, most + 1, math.nan):
        with pytest.raises(
            (ReplogError, TypeError), match=rf"{option}={number}: choose {least} to {most}|whole number"
        ):
            client("127.0.0.1:1", **{option: number})
    for number in (least, most):
        await client("127.0.0.1:1", **{option: number}).close()


@pytest.mark.parametrize(
    ("client", "options"),
    [
        (Producer, {"acks": 2}),
        (Producer, {"acks": 1, "enable_idempotence": True}),
        (Producer, {"acks": 0, "enable_idempotence": True}),
        (Producer, {"compression": "rar"}),
        (Consumer, {"isolation_level": "dirty"}),
        (Consumer, {"auto_offset_reset": "none"}),
    ],
)
def test_a_choice_that_there_is_not_is_refused(client, options):
    with pytest.raises(ReplogError, match=f"INVALID_CONFIG.*{[*options][-1]}"):
        client("127.0.0.1:1", **options)


ODD: list[Any] = [None, 5, "", "no", b"no", True, 1.5, math.nan, [None], {"a": 1}, object(), -1]
ODD += [TP, {TP: 5}]
HUGE = MAX_LONG + 1  # no field of the protocol holds it, wherever it stands
LARGE = [HUGE, [HUGE], [[HUGE]], ("t", HUGE), [("t", HUGE)], {("t", HUGE): 0}, {TP: HUGE}, {TP: [HUGE]}]
LARGE += [StandingAudit("", "", HUGE, (), 1, (), 0), StandingAudit("", "", 1, (), HUGE, (), 0)]
LARGE += [StandingAudit("", "", 1, ((TP, HUGE),), 1, (), 0)]
RIGHT = {"topic": "t", "value": b"x", "values": [b"x"], "partitions": [TP], "total": 5, "offset": 0, "user": "User:u"}
RIGHT |= {"timestamps": {TP: 0}, "offsets": {TP: 0}, "configs": {}, "broker_id": 99, "moves": {}, "kind": "preferred"}
RIGHT |= {"targets": {}, "broker_ids": [], "acls": [], "filters": [], "decode": decode_fetched, "records": []}
WAITS = [("topic", "no"), ("timeout_s", 5), ("timeout_s", 1.5)]  # these are right


def odd_arguments(client: type) -> Iterator[tuple[str, str, Any, list[Any], dict[str, Any]]]:
    """Every call with one odd argument, the others right: its name, that of the argument, and all of them."""
    for name in calls(client).keys() - {"assignment"}:
        parameters = list(inspect.signature(getattr(client, name)).parameters.values())[1:]
        right = {each.name: RIGHT.get(each.name) for each in parameters if each.default is each.empty}
        if any(each.name == "partition" for each in parameters):
            right["partition"] = TP if client is Consumer else 0
        for parameter in parameters:
            has_numbers = re.search(r"\bint\b|Partition|Audit", str(parameter.annotation))
            for odd in ODD + LARGE if has_numbers else ODD:
                if parameter.kind is parameter.VAR_POSITIONAL:
                    yield name, parameter.name, odd, [odd], {}
                elif (parameter.name, odd) not in WAITS:
                    yield name, parameter.name, odd, [], right | {parameter.name: odd}


@pytest.mark.parametrize("client", CLIENTS)
async def test_whatever_a_call_is_given_is_taken_or_named(one_broker, client):
    """None ends in an error of Python's own about something else, and few odd values are taken."""
    wrong, taken = list[str](), Counter[str]()
    async with client(one_broker) as made, asyncio.timeout(60):
        if client is Consumer:
            made.assign([TP])
        for name, argument, odd, given, named in odd_arguments(client):
            try:
                await outcome(getattr(made, name)(*given, **named))
                taken[f"{name} {argument}"] += 1
            except ReplogError:
                pass
            except Exception as error:  # noqa: BLE001 (it is what is looked for)
                names = rf"{argument}|{argument[:-1]} must|(topic|partition|the broker ids|the \w+ of t-0) must"
                if not (isinstance(error, TypeError) and re.search(names, str(error))):
                    wrong.append(f"{name}({argument}={odd!r}): {error!r}")
    assert not wrong, "\n".join(wrong)
    assert max(taken.values()) <= 4, taken
