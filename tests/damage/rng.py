"""A damage by chance to a partition's files: any byte, any field of any batch or entry, any file."""

import random
import struct
from contextlib import suppress
from pathlib import Path

from replog.log.errors import CorruptRecord
from replog.log.formats.batch import BatchHeader, iterate_batches
from replog.log.formats.checkpoint import write_entries

SIZES = {".log": 1, ".index": 8, ".timeindex": 12, ".digest": 12}  # of an entry
FIELDS = {  # offset and type of those that a damage may hit
    ".log": ((0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (17, ">I"), (23, ">i"), (35, ">q"), (57, ">i")),
    ".index": ((0, ">i"), (4, ">i")),
    ".timeindex": ((0, ">q"), (8, ">i")),
    ".digest": ((0, ">I"), (4, ">Q")),
}
DAMAGES = (
    "flip",
    "overwrite",
    "zeros",
    "cut",
    "insert",
    "append",
    "gone",
    "epochs",
    "drop",
    "double",
    "near",
    *["field"] * 4,
)


def batches_of(log: Path) -> list[tuple[int, BatchHeader]]:
    """Those that can be read."""
    batches: list[tuple[int, BatchHeader]] = []
    with suppress(CorruptRecord):
        batches.extend(iterate_batches(log.read_bytes()))
    return batches


def damaged(directory: Path, rng: random.Random) -> str:
    """One damage, told."""
    files = [path for path in sorted(directory.iterdir()) if path.suffix in SIZES and path.stat().st_size]
    if not files:
        return "nothing left"
    path, kind = rng.choice(files), rng.choice(DAMAGES)
    raw = bytearray(path.read_bytes())
    at = rng.randrange(len(raw))
    length = min(rng.choice([1, 4, 8, 12, 100]), len(raw) - at)
    if kind == "flip":
        raw[at] ^= 1 << rng.randrange(8)
    elif kind == "overwrite":
        noise = rng.choice([rng.randbytes(length), b"\xff" * length, (b"\x7f" + b"\xff" * 99)[:length]])
        raw[at : at + length] = noise
    elif kind == "zeros":
        raw[at : at + length] = bytes(length)
    elif kind == "cut":
        del raw[at:]
    elif kind == "insert":
        raw[at:at] = rng.randbytes(length)
    elif kind == "append":
        raw += rng.choice([bytes, rng.randbytes])(rng.choice([1, 8, 12, 61, 500]))
    elif kind == "gone":
        path.unlink()
        return f"{path.name} gone"
    elif kind == "epochs":
        starts = sorted(rng.sample(range(60), rng.randrange(5)))
        write_entries(directory / "leader-epoch-checkpoint", enumerate(starts))
        return f"epochs from {starts}"
    elif kind == "near":
        path = rng.choice(sorted(directory.glob("*.index")) or [path])
        raw = bytearray(path.read_bytes())
        _point_near(path, raw, rng)
    else:
        _damage_entry(path, raw, kind, rng)
    path.write_bytes(raw)
    return f"{kind} {path.name} at {at}"


def _point_near(path: Path, raw: bytearray, rng: random.Random) -> None:
    """Let an entry of the offset index point at another batch, with its offset or with that of the batch."""
    log = path.with_suffix(".log")
    batches = batches_of(log) if log.exists() else []
    if path.suffix != ".index" or len(raw) < 8 or not batches:
        return
    at = 8 * rng.randrange(len(raw) // 8)
    offset, position = struct.unpack_from(">ii", raw, at)
    near = [batch for batch in batches if abs(batch[0] - position) < 300]
    position, header = rng.choice(near or batches)
    struct.pack_into(">ii", raw, at, rng.choice([offset, header.last_offset - int(log.stem)]), position)


def _damage_entry(path: Path, raw: bytearray, kind: str, rng: random.Random) -> None:
    """Of an entry of an index, or a batch: one field, or the whole of it."""
    size = SIZES[path.suffix]
    places = [(at, header.size) for at, header in batches_of(path)] if size == 1 else []
    places = places or [(at, size) for at in range(0, len(raw) - size + 1, size) if size > 1]
    if not places:
        return
    at, size = rng.choice(places)
    if kind == "drop":
        del raw[at : at + size]
    elif kind == "double":
        raw[at:at] = raw[at : at + size]
    else:
        offset, code = rng.choice(FIELDS[path.suffix])
        bits = 8 * struct.calcsize(code)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code[1].islower() else (0, (1 << bits) - 1)
        (value,) = struct.unpack_from(code, raw, at + offset)
        by = rng.choice([1, -1, 2, rng.randrange(1, 200), -rng.randrange(1, 200)])
        changed = rng.choice([value + by, value + by, 0, low, high, rng.randrange(low, high)])
        struct.pack_into(code, raw, at + offset, max(low, min(high, changed)))
