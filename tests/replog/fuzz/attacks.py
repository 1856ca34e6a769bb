"""Small inputs that announce much, run as a process with little memory that prints what goes wrong (`test_parsers`)."""

import gzip
import resource
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cramjam
from crc32c import crc32c

from replog.log.formats.compression import compress
from tests.replog.fuzz.targets import TARGETS, with_crc, with_payload
from tests.replog.log.batches import client_batch

MORE_MEMORY = 1 << 30  # bytes beyond what the process has when it begins; 256 MiB may come out of a batch
MOST_SECONDS = 10.0
HUGE_VARINT = b"\xfe\xff\xff\xff\x0f"  # zigzag of 2^31 - 1
HUGER_VARINT = b"\xfe" + b"\xff" * 8 + b"\x01"  # of 2^63 - 1


def attacks() -> Iterator[tuple[str, str, bytes]]:
    """The parser, what is tried, the bytes."""
    plain = client_batch(b"x")
    for length in (2**31 - 1, 2**31 - 100, 50, 49, 48, 0, -1, -(2**31)):
        for name in ("batches", "records of a consumer", "dump of a log"):
            yield name, f"a batch length of {length}", plain[:8] + struct.pack(">i", length) + plain[12:]
    for count, delta in ((2**31 - 1, 2**31 - 1), (2**31 - 1, 2**31 - 2), (-1, 0), (-(2**31), -1), (10**6, 10**6)):
        data = bytearray(plain)
        struct.pack_into(">i", data, 23, delta)
        struct.pack_into(">i", data, 57, count)
        for name in ("records", "records of a consumer", "dump of a log"):
            yield name, f"{count} records in {delta} offsets", with_crc(bytes(data))
    for varint in (HUGE_VARINT, HUGER_VARINT, b"\xff" * 300, b"\x01", b"\xff\xff\xff\xff\x0f"):
        for at in range(len(plain) - 61):
            data = with_payload(plain, plain[61 : 61 + at] + varint + plain[61 + at + 1 :], 0)
            for name in ("records", "records of a consumer"):
                yield name, f"varint {varint[:10].hex()} at {at}", data
    yield from bombs(plain)
    for count in (2**31 - 1, -1, -(2**31), 10**6):
        body = struct.pack(">i", count) + bytes(46)
        yield "producer snapshot", f"{count} entries", struct.pack(">hI", 1, crc32c(body)) + body
    for count in (b"1" + b"0" * 18, b"9" * 10**6, b"-1"):
        for name in ("offset checkpoint", "leader epochs"):
            yield name, f"{count[:20]!r} entries", b"0\n" + count + b"\n1 2\n"
    yield "offset checkpoint", "many empty lines", b"0\n%d\n" % (4 << 20) + b"\n" * (4 << 20)
    yield "offset checkpoint", "one long line", b"0\n1\n" + b"t " * (4 << 20)
    yield "leader epochs", "one long number", b"0\n1\n" + b"1" * (4 << 20) + b" 1\n"
    yield "properties", "one long line", b"a" * (4 << 20)
    yield "properties", "many lines", b"".join(b"%d=\n" % number for number in range(10**5))
    yield "clean shutdown marker", "a long number", b"1" * (4 << 20)
    yield "partition metadata", "a long version", b"version: " + b"1" * (4 << 20)
    yield "wire", "a huge field", b"\x7a" + b"\xff" * 4 + b"\x07" + b"abc"
    yield "wire", "a huger field", b"\x7a" + b"\xff" * 8 + b"\x7f" + b"abc"
    yield "wire", "nesting", b"\x2a" * 10**5
    for name in ("offset index", "time index", "digest index", "transaction index"):
        yield name, "entries of ones", b"\xff" * 34 * 10**4
        yield name, "entries of zeros", bytes(34 * 10**4)


def bombs(plain: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Payloads that are a thousandth of what they become, or announce more than there is."""
    zeros = bytes(300 << 20)
    block = cramjam.snappy.compress_raw(zeros[: 1 << 20])
    payloads = {
        "gzip of 300 MiB": (1, gzip.compress(zeros[: 1 << 20]) * 300),
        "lz4 of 300 MiB": (3, bytes(cramjam.lz4.compress(zeros))),
        "zstd of 300 MiB": (4, bytes(cramjam.zstd.compress(zeros))),
        "nested zstd": (4, bytes(cramjam.zstd.compress(cramjam.zstd.compress(zeros)))),
        "bare snappy of 4 GiB": (2, b"\xff\xff\xff\xff\x0f" + b"\0" * 50),
        "snappy blocks": (2, compress(2, b"")[:16] + (struct.pack(">i", len(block)) + bytes(block)) * 300),
        "a snappy block of -1": (2, compress(2, b"")[:16] + struct.pack(">i", -1) + bytes(block)),
        "a zstd frame that announces 2^62": (4, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**62) + b"\0" * 20),
        "a zstd window of 2 GiB": (4, b"\x28\xb5\x2f\xfd\x00\xf8" + b"\x01\0\0"),
        "an lz4 frame that announces 2^62": (3, b"\x04\x22\x4d\x18\x68\x70" + struct.pack("<Q", 2**62) + b"\0" * 20),
        "many gzip members": (1, gzip.compress(b"") * 10**4),
    }
    for what, (codec, payload) in payloads.items():
        yield "compression", what, bytes([codec]) + payload
        yield "records of a consumer", what, with_payload(plain, payload, codec)


def main() -> None:
    made = list(attacks())
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name, what, data in made:
        began = time.process_time()
        try:
            TARGETS[name].run(data)
        except Exception as error:  # noqa: BLE001 any is a finding
            print(f"{name}: {what}: {type(error).__name__}: {error}"[:300])
        if time.process_time() - began > MOST_SECONDS:
            print(f"{name}: {what}: took {time.process_time() - began:.1f} s")
        elif "-v" in sys.argv:
            print(f"{time.process_time() - began:.2f} {name}: {what}", file=sys.stderr)
    print(f"{len(made)} attacks")


if __name__ == "__main__":
    main()
