"""What a crash of the machine leaves of a log's files: every byte that was not fsynced may be another one, or gone."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import note

from tests.replog.log.log_model import ModelLog

LEAST_HOLE = 8  # bytes; a change of a leader epoch alone cannot be told (RB-2)
INDEXES = (".index", ".timeindex", ".digest", ".txnindex")


def crash(
    directory: Path,
    model: ModelLog,
    bases: Sequence[int],
    durable: Mapping[str, int],
    recovery_point: int,
    rng: random.Random,
) -> int:
    """Damage the files; return the offset up to which whole batches are still there without a hole."""
    recovered_from = max((base for base in bases if base <= recovery_point), default=bases[0])
    for base in bases:
        for kind in INDEXES:
            path = directory / f"{base:020d}{kind}"
            if not path.exists():
                continue
            kept = 0 if base >= recovered_from else durable.get(path.name, 0)
            _damage(path, kept, rng, may_grow=True)
            if not kept and rng.random() < 0.1:
                note(f"crash: {path.name} is gone")
                path.unlink(missing_ok=True)
    for path in sorted(directory.glob("*.snapshot")):
        if int(path.stem) > recovered_from or rng.random() < 0.1:  # a CRC tells
            _damage(path, 0, rng, may_grow=True)
    end = model.first_base
    for slot, base in enumerate(bases):
        path = directory / f"{base:020d}.log"
        before = path.read_bytes()
        if path.name not in durable and slot and rng.random() < 0.2:
            note(f"crash: {path.name} is gone")
            path.unlink()
            continue
        _damage(path, durable.get(path.name, 0), rng, may_grow=base == bases[-1])
        if end != base:
            continue
        after = path.read_bytes()
        position = 0
        for batch in model.within(base, bases[slot + 1] if slot + 1 < len(bases) else model.log_end):
            if after[position : position + len(batch.data)] != batch.data:
                break
            position += len(batch.data)
            end = batch.last + 1
        assert before[:position] == after[:position]
    return end


def _damage(path: Path, kept: int, rng: random.Random, *, may_grow: bool) -> None:
    """Any change of what lies behind the first `kept` bytes, none as often as not."""
    before = path.read_bytes()
    how = rng.choice(["nothing", "nothing", "cut", "zeros", "hole", "garbage", "flip", "longer"])
    at = rng.randint(kept, len(before))
    content = bytearray(before)
    if how == "cut":
        del content[at:]
    elif how == "zeros":
        content[at:] = bytes(len(content) - at)
    elif how == "hole":
        end = rng.randint(min(at + LEAST_HOLE, len(content)), len(content))
        content[at:end] = bytes(end - at)
    elif how == "garbage":
        content[at:] = rng.randbytes(rng.randint(0, len(content) - at))
    elif how == "flip" and kept < len(content):
        content[-1] ^= 1 << rng.randint(0, 7)
    elif how == "longer" and may_grow:
        content += rng.choice([bytes, rng.randbytes])(rng.randint(1, 100))
    if content != before:
        note(f"crash: {path.name}, of {len(before)} bytes, {kept} of them durable: {how} at {at}")
        path.write_bytes(content)
