"""Compares Kafka's codec with two others: kio, and that of kafka-python. Shows µs of CPU, the least of some rounds.

All decode the same bytes, and encode what they decoded to the same bytes again. Pip fetches the other two into a
directory of its own for each run: nothing else of replog needs them.

Run it with `python -m benchmarks.codec`, on a quiet machine.
"""

import importlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from benchmarks.harness import benchmark_parser, parsed, publish, table
from replog.kafka import codec, messages
from replog.kafka.versions import APIS

OTHERS = ("kio==0.6.5", "kafka-python==3.0.12")
ROUNDS, ROUND_S = 7, 0.05
FLOOR = 3  # times our time takes kio, which encodes in Python and copies records
MIB_TITLE = "Produce request, 1 × 1,024 KiB"


class Case(NamedTuple):
    title: str
    key: int
    version: int
    side: str
    message: Any


class Pair(NamedTuple):
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], Any]


def cases() -> Iterator[Case]:
    m: Any = messages
    for count in (6, 1000):
        partitions = [
            m.MetadataResponsePartition(0, i, 1, 3, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3], offline_replicas=[])
            for i in range(count)
        ]
        brokers = [m.MetadataResponseBroker(i, "localhost", 9092 + i, "r") for i in range(3)]
        topic = m.MetadataResponseTopic(name="topic", topic_id=bytes(range(16)), partitions=partitions)
        metadata = m.MetadataResponse(brokers=brokers, cluster_id="c" * 22, controller_id=1, topics=[topic])
        yield Case(f"Metadata response, {count:,} partitions", 3, 12, "Response", metadata)
    asked = m.MetadataRequest([m.MetadataRequestTopic(topic_id=bytes(range(16)), name="topic")])
    yield Case("Metadata request", 3, 12, "Request", asked)
    for count, size in ((1, 16 << 10), (1, 1 << 20), (6, 16 << 10)):
        data = [m.ProduceRequestPartitionData(i, bytes(size)) for i in range(count)]
        produce = m.ProduceRequest(None, -1, 30_000, [m.ProduceRequestTopicData(name="topic", partition_data=data)])
        yield Case(f"Produce request, {count} × {size >> 10:,} KiB", 0, 9, "Request", produce)
        parts = [m.FetchResponsePartition(i, high_watermark=9, records=bytes(size)) for i in range(count)]
        fetched = m.FetchResponse(responses=[m.FetchResponseResponse(topic="topic", partitions=parts)])
        yield Case(f"Fetch response, {count} × {size >> 10:,} KiB", 1, 12, "Response", fetched)
    done = m.ProduceResponseResponse(name="topic", partition_responses=[m.ProduceResponsePartitionResponse(0, 0, 99)])
    yield Case("Produce response", 0, 9, "Response", m.ProduceResponse([done]))
    wanted = [m.FetchRequestPartition(i, 3, 123_456, -1, 0, 1 << 20) for i in range(6)]
    fetch = m.FetchRequest(max_wait_ms=500, topics=[m.FetchRequestTopic(topic="topic", partitions=wanted)])
    yield Case("Fetch request, 6 partitions", 1, 12, "Request", fetch)
    ends = [m.ListOffsetsRequestPartition(i, 3, 1_700_000_000_000) for i in range(100)]
    yield Case(
        "ListOffsets request, 100", 2, 8, "Request", m.ListOffsetsRequest(topics=[m.ListOffsetsRequestTopic("t", ends)])
    )
    rows = [m.ListOffsetsResponsePartition(i, 0, -1, 12_345_678, 3) for i in range(100)]
    answer = m.ListOffsetsResponse(topics=[m.ListOffsetsResponseTopic("topic", rows)])
    yield Case("ListOffsets response, 100", 2, 8, "Response", answer)


def ours(case: Case) -> Pair:
    request = case.side == "Request"
    decode, encode = codec.decode_request, codec.encode_request
    if not request:
        decode, encode = codec.decode_response, codec.encode_response
    return Pair(
        lambda data: decode(case.key, case.version, memoryview(data)),
        lambda message: encode(case.key, case.version, message),
    )


def kio(case: Case) -> Pair:
    index, serial = importlib.import_module("kio.index"), importlib.import_module("kio.serial")
    load = index.load_request_schema if case.side == "Request" else index.load_response_schema
    entity = load(case.key, case.version)
    read, write = serial.entity_reader(entity), serial.entity_writer(entity)

    def encode(message: Any) -> bytes:
        with io.BytesIO() as buffer:
            write(buffer, message)
            return buffer.getvalue()

    return Pair(lambda data: read(data, 0)[0], encode)


def kafka_python(case: Case) -> Pair:
    modules = ("producer", "consumer", "metadata")
    name = APIS[case.key].name + case.side
    homes = (importlib.import_module(f"kafka.protocol.{module}") for module in modules)
    entity = next(getattr(home, name) for home in homes if hasattr(home, name))[case.version]
    return Pair(entity.decode, lambda message: message.encode())


CODECS = {"ours": ours, "kio": kio, "kafka-python": kafka_python}


def measure(case: Case) -> dict[str, float]:
    """Return the bytes of a message, and the microseconds of each codec, which take turns."""
    data = b"".join(ours(case).encode(case.message))
    calls: dict[str, Callable[[], Any]] = {}
    for name, pair_of in CODECS.items():
        pair = pair_of(case)
        message = pair.decode(data)
        again = pair.encode(message)
        if (b"".join(again) if isinstance(again, list) else bytes(again)) != data:
            raise ValueError(f"{name} encodes a {case.title} otherwise than it was decoded")
        calls[f"{name} decodes"] = partial(pair.decode, data)
        calls[f"{name} encodes"] = partial(pair.encode, message)
    counts = {name: max(1, int(ROUND_S / seconds(call, 1))) for name, call in calls.items()}
    rounds = [{name: seconds(call, counts[name]) for name, call in calls.items()} for _ in range(ROUNDS)]
    return {"bytes": len(data), **{name: min(each[name] for each in rounds) * 1e6 for name in calls}}


def seconds(call: Callable[[], Any], count: int) -> float:
    """Return the CPU time of a call, as the mean of so many."""
    began = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - began) / count


def missed(report: dict[str, dict[str, float]]) -> Iterator[str]:
    """Yield what is slower than it should be."""
    for title, figures in report.items():
        for what in ("encodes", "decodes") if title.startswith(MIB_TITLE) else ("encodes",):
            if (times := figures[f"kio {what}"] / figures[f"ours {what}"]) < FLOOR:
                yield f"{title}: kio {what} in {times:.1f} times our time, not {FLOOR}"


def shown(report: dict[str, dict[str, float]]) -> str:
    columns = list(next(iter(report.values())))
    rows = [
        [title, *(f"{figures[column]:,.{0 if column == 'bytes' else 1}f}" for column in columns)]
        for title, figures in report.items()
    ]
    return table(["message", *columns], rows)


def main() -> None:
    options, note = parsed(benchmark_parser(__doc__))
    report = {}
    with tempfile.TemporaryDirectory() as home:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", home, *OTHERS]
        subprocess.run(pip, check=True)
        sys.path.insert(0, home)
        for case in cases():
            note(case.title)
            report[f"{case.title}, v{case.version}"] = measure(case)
    publish("codec", shown(report), report, options)
    if slow := list(missed(report)):
        raise SystemExit("\n".join(slow))


if __name__ == "__main__":
    main()
