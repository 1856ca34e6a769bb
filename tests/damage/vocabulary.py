"""The ways to damage files: of a path at once, or as a `Damage` to be done to a partition's directory later."""

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from crc32c import crc32c

from replog.log.errors import CorruptRecord
from replog.log.formats.batch import CRC_START, iterate_batches
from replog.log.producers.snapshot import format_snapshot, parse_snapshot

Damage = Callable[[Path], None]

ENTRY = {"index": ">ii", "timeindex": ">qi", "digest": ">IQ"}  # by the kind of index


def segment_file(base: int, kind: str) -> str:
    return f"{base:020d}.{kind}"


# -- at once


def overwrite(path: Path, position: int, data: bytes) -> None:
    """From `position`, which counts from the end if negative."""
    content = bytearray(path.read_bytes())
    at = position + len(content) if position < 0 else position
    assert 0 <= at <= len(content) - len(data), f"{path} has only {len(content)} bytes"
    content[at : at + len(data)] = data
    path.write_bytes(content)


def flip(path: Path, position: int, bits: int = 1) -> None:
    """Change bits of one byte; doing it again undoes it."""
    overwrite(path, position, bytes([path.read_bytes()[position] ^ bits]))


def index_entries(path: Path) -> list[tuple[int, ...]]:
    """The raw entries of an index file, by its suffix."""
    layout, data = ENTRY[path.suffix[1:]], path.read_bytes()
    return list(struct.iter_unpack(layout, data[: len(data) - len(data) % struct.calcsize(layout)]))


def set_index_entry(path: Path, slot: int, entry: tuple[int, ...]) -> None:
    layout = ENTRY[path.suffix[1:]]
    overwrite(path, slot * struct.calcsize(layout), struct.pack(layout, *entry))


def seal(log: Path) -> None:
    """Right CRCs for all batches that can be read, whatever they say: as if a broker had written just that."""
    data = bytearray(log.read_bytes())
    with suppress(CorruptRecord):
        for at, header in iterate_batches(data):
            struct.pack_into(">I", data, at + 17, crc32c(data[at + CRC_START : at + header.size]))
    log.write_bytes(data)


# -- later


def changed(name: str, change: Callable[[bytes], bytes]) -> Damage:
    """The file `name` with its content changed; one that is missing counts as empty."""

    def damage(directory: Path) -> None:
        path = directory / name
        path.write_bytes(change(path.read_bytes() if path.exists() else b""))

    return damage


def written(name: str, content: bytes = b"") -> Damage:
    return changed(name, lambda _: content)


def cut(name: str, count: int) -> Damage:
    """Without its last `count` bytes."""
    return changed(name, lambda content: content[: len(content) - count])


def taken_out(name: str, first: int, last: int) -> Damage:
    """Without the bytes from `first` up to `last`."""
    return changed(name, lambda content: content[:first] + content[last:])


def longer(name: str, tail: bytes) -> Damage:
    return changed(name, lambda content: content + tail)


def flipped(name: str, position: int, bits: int = 1) -> Damage:
    return lambda directory: flip(directory / name, position, bits)


def overwritten(name: str, position: int, content: bytes) -> Damage:
    """From `position`, which counts from the end if negative."""
    return lambda directory: overwrite(directory / name, position, content)


def entry(name: str, slot: int, *values: int) -> Damage:
    """An entry of an index that says something else."""
    return lambda directory: set_index_entry(directory / name, slot, values)


def producers(name: str, producer_id: int, *, gone: bool = False, **fields: int) -> Damage:
    """A snapshot that says something else of a producer, or nothing, under a right CRC."""

    def change(content: bytes) -> bytes:
        known = {entry.producer_id: entry for entry in parse_snapshot(content)}
        said = known.pop(producer_id)._replace(**fields)
        return format_snapshot([*known.values(), *([] if gone else [said])])

    return changed(name, change)


def sealed(name: str, damage: Damage) -> Damage:
    """Under right CRCs."""
    return both(damage, lambda directory: seal(directory / name))


def missing(*names: str) -> Damage:
    def damage(directory: Path) -> None:
        for name in names:
            (directory / name).unlink()

    return damage


def swapped(name: str, other: str) -> Damage:
    """Each with the content of the other."""

    def damage(directory: Path) -> None:
        first, second = ((directory / each).read_bytes() for each in (name, other))
        (directory / name).write_bytes(second)
        (directory / other).write_bytes(first)

    return damage


def renamed(base: int, other: int) -> Damage:
    """The files of a segment, under the name of another offset."""

    def damage(directory: Path) -> None:
        for path in directory.glob(f"{base:020d}.*"):
            path.rename(path.with_name(f"{other:020d}{path.suffix}"))

    return damage


def sparse(name: str, size: int) -> Damage:
    """Grown to `size` by a hole."""

    def damage(directory: Path) -> None:
        with (directory / name).open("r+b") as file:
            file.truncate(size)

    return damage


def directory_instead(name: str) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name).mkdir()

    return damage


def both(*damages: Damage) -> Damage:
    def damage(directory: Path) -> None:
        for one in damages:
            one(directory)

    return damage
