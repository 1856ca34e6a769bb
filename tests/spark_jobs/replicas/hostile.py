"""Files that no broker writes, and what all checks say of each in little memory.

`python -m tests.spark_jobs.replicas.hostile DIRECTORY` prints the classes of faults as JSON, by case.
"""

import json
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from replog.log.formats.batch import HEADER, HEADER_SIZE, BatchHeader
from spark_jobs.replicas.blocks import Cells, check_blocks
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.index_check import index_blocks, index_points
from spark_jobs.replicas.segment_check import check_segment, until_unread

MEMORY = 160 << 20  # of address space, beside what the interpreter with its libraries takes
NAME = f"{0:020d}"
SIDE = (".index", ".timeindex", ".digest")


def header(base: int, size: int = HEADER_SIZE, delta: int = 0) -> bytes:
    return HEADER.pack(*BatchHeader(base, size - 12, 0, 2, 1, 0, delta, 0, 0, -1, -1, -1, 1))


def small(directory: Path, first: int = 0, count: int = 10) -> None:
    (directory / f"{first:020d}.log").write_bytes(b"".join(header(first + number) for number in range(count)))


def sparse(path: Path, size: int, content: bytes = b"") -> None:
    path.write_bytes(content)
    os.truncate(path, size)


def zeros(directory: Path) -> None:
    sparse(directory / f"{NAME}.log", 3 << 30)


def one_batch_of_256_mib(directory: Path) -> None:
    sparse(directory / f"{NAME}.log", (1 << 28) + HEADER_SIZE, header(0, 1 << 28))


def a_log_beyond_all_positions(directory: Path) -> None:
    sparse(directory / f"{NAME}.log", (1 << 44) - 4096, header(0))


def large_indexes(directory: Path) -> None:
    small(directory)
    for suffix in SIDE:
        sparse(directory / f"{NAME}{suffix}", 1 << 30, b"\0\0\0\1" * 6)


def pipes(directory: Path) -> None:
    small(directory)
    small(directory, 10)
    for name in (*(f"{10:020d}{suffix}" for suffix in SIDE), f"{NAME}.digest", "leader-epoch-checkpoint"):
        os.mkfifo(directory / name)
    os.mkfifo(directory / f"{20:020d}.log")


def a_pipe_for_marks(directory: Path) -> None:
    small(directory)
    os.mkfifo(directory.parent / "replication-offset-checkpoint")


def offsets_beyond_their_end(directory: Path) -> None:
    small(directory)
    small(directory, 2**63 - 1, count=0)
    (directory / f"{2**63 - 1:020d}.index").write_bytes(b"\x7f" * 24)


def one_segment_twice(directory: Path) -> None:
    small(directory)
    (directory / f"{NAME}.copy.log").write_bytes(header(0))


def devices(directory: Path) -> None:
    small(directory)
    os.symlink("/dev/null", directory / f"{NAME}.digest")
    for name in (f"{10:020d}.log", f"{NAME}.index", "leader-epoch-checkpoint"):
        os.symlink("/dev/zero", directory / name)


def links_to_themselves(directory: Path) -> None:
    small(directory)
    for name in (*(NAME + suffix for suffix in SIDE), "leader-epoch-checkpoint"):
        os.symlink(name, directory / name)


def offsets_at_their_end(directory: Path) -> None:
    base = 2**63 - 2**32 - 1
    batches = header(base, delta=2**31 - 1) + header(base + 2**31, delta=2**31 - 1) + header(2**63 - 1, delta=9)
    (directory / f"{base:020d}.log").write_bytes(batches)
    for suffix in SIDE:
        (directory / f"{base:020d}{suffix}").write_bytes(b"\xff" * 24)


def offsets_out_of_64_bits(directory: Path) -> None:
    (directory / f"{NAME}.log").write_bytes(header(2**63 - 1, delta=5) + header(0))


def nothing_but_lies(directory: Path) -> None:
    small(directory, count=500)
    lies = range(1, 15_000)
    (directory / f"{NAME}.index").write_bytes(b"".join(struct.pack(">ii", at, 2 * at + 1) for at in lies))
    (directory / f"{NAME}.timeindex").write_bytes(b"".join(struct.pack(">qi", at, at) for at in lies))
    (directory / f"{NAME}.digest").write_bytes(b"".join(struct.pack(">IQ", at, at) for at in lies))


CASES: list[Callable[[Path], None]] = [
    zeros,
    one_batch_of_256_mib,
    a_log_beyond_all_positions,
    large_indexes,
    pipes,
    a_pipe_for_marks,
    devices,
    links_to_themselves,
    offsets_at_their_end,
    offsets_beyond_their_end,
    one_segment_twice,
    offsets_out_of_64_bits,
    nothing_but_lies,
]


CELLS = Cells(1 << 20, (3,), 2**62)


LOOKS: dict[str, Callable[[ReplicaSegment, int], Iterator[Any]]] = {
    "batches": partial(check_segment, crc=True),
    "headers": partial(check_segment, crc=False),
    "blocks": partial(check_blocks, cells=CELLS, crc=True),
    "header blocks": partial(check_blocks, cells=CELLS, crc=False),
    "points": partial(index_points, aligned=[3]),
    "index blocks": partial(index_blocks, cells=CELLS),
    "digests": lambda segment, _: digest_points(segment, [3], entries=True),
}


def told(root: Path) -> dict[str, list[str]]:
    """Classes of faults, by what looked."""
    classes: dict[str, set[str]] = {}
    for files in DirectoryStore(1, root).partitions(frozenset()):
        classes.setdefault("describe", set()).add(describe(files).fault or "sound")
        for segment in files.segments:
            for name, look in LOOKS.items():
                items = until_unread(segment, look(segment, files.log_start))
                faults = {item.fault for item in items if isinstance(item, FileFault)}
                classes.setdefault(name, set()).update(faults or {"sound"})
    return {name: sorted(kinds) for name, kinds in classes.items()}


def main() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    classes = {}
    for case in CASES:
        directory = Path(sys.argv[1]) / case.__name__ / "t-0"
        directory.mkdir(parents=True)
        case(directory)
        classes[case.__name__] = told(directory.parent)
    print(json.dumps(classes))


if __name__ == "__main__":
    main()
