"""One line a damage: what a start after a crash leaves, what `log verify` says, what the audit says of each level.

The sample is a partition of segments [0:606 14:653 22:636 34:160], LEO 38 (`write_log_directory`). Segment 22 has
batches at 0, 69, 160, 238, 316, 396, 476 and 556; those from 316 on have two records each, from offset 26 on, and 80
bytes. Its offset entries are (24, 160), (27, 316), (31, 476), its time entries are for 23, 27, 31 and 33, its digests
for 24, 27, 31 and 33.
"""

import struct
from typing import NamedTuple

from tests.damage.vocabulary import (
    Damage,
    both,
    changed,
    cut,
    entry,
    flipped,
    longer,
    missing,
    overwritten,
    producers,
    sealed,
    segment_file,
    taken_out,
    written,
)
from tests.replog.log.batches import leader_batch

LOG, INDEX, TIMES, DIGESTS, TXN = (
    segment_file(22, kind) for kind in ("log", "index", "timeindex", "digest", "txnindex")
)
STATE = segment_file(34, "snapshot")
LAST = segment_file(34, "log")
EPOCHS = "leader-epoch-checkpoint"
SEGMENT_14 = [segment_file(14, kind) for kind in ("log", "index", "timeindex", "digest", "snapshot")]
# What the audit sees in the next snapshot is a consequence, which `resolve` leaves out.
STATE_FAULT = "INDEX_LIE 34.snapshot {0}-{0}; INDEX_LIE 38.snapshot {1}-{1}"
OTHER_HAND = missing(DIGESTS)  # as if Kafka had written the segment
FAR = struct.pack(">q", 1 << 40)


def offsets(*entries: tuple[int, int]) -> bytes:
    """An offset index."""
    return b"".join(struct.pack(">ii", *one) for one in entries)


class Row(NamedTuple):
    """A damage, and what is made of it, in the words of `places`, `audited`, `faults` and `classes` (test_rows)."""

    name: str  # with the rules that it concerns
    damage: Damage
    end: int | None  # where the log ends after a crash; None: the damage stays, as no rule of a single log is broken
    found: str  # by `log verify`: KIND file@position first-last of each fault
    deep: str | None = None  # by an audit: CLASS file first-last of each; None: the same, by class
    batches: str | None = None  # None: as `deep`; else CLASS file of each
    index: str | None = None


# fmt: off
ROWS = [
    # -- batches
    Row("a flipped payload bit (RB-1)", flipped(LOG, 316 + 65), 26, "BATCH_CRC 22.log@316 26-27", batches="", index=""),
    Row("a base offset one too high (RB-2, S-W-D20)", flipped(LOG, 396 + 7), 28, "BASE_OFFSET 22.log@396 28-29",
        index=""),
    Row("a base offset four too low (S-W-D20)", flipped(LOG, 396 + 7, 4), 28, "BASE_OFFSET 22.log@396 28-29", index=""),
    Row("a negative base offset", flipped(LOG, 396, 0x80), 28, "BATCH_HEADER 22.log@396 28-29", index=""),
    Row("a length that ends within the next batch (S-W-D6)", flipped(LOG, 396 + 11, 0x10), 28,
        "BATCH_HEADER 22.log@396 28-29", index=""),
    Row("a length that ends beyond the file (S-W-D6)", flipped(LOG, 396 + 9), 28, "BATCH_HEADER 22.log@396 28-29",
        index=""),
    Row("a length of gigabytes", overwritten(LAST, 80 + 8, struct.pack(">i", 2**31 - 20)), 36,
        "TORN_TAIL 34.log@80 36"),
    Row("a length that leaves too little of the file for a header", overwritten(LOG, 476 + 8, struct.pack(">i", 128)),
        30, "BATCH_CRC 22.log@476 30-31; BATCH_HEADER 22.log@616 32-33"),
    Row("a leader epoch that is raised (S-W-D19)", flipped(LOG, 396 + 15, 8), 28,
        "DIGEST 22.digest@24 28-31; EPOCH_BACK 22.log@476 30; EPOCHS leader-epoch-checkpoint 28",
        deep="INDEX_LIE 22.digest 28-31; EPOCH_CACHE_LIE 22.log 28-29", index=""),
    Row("another magic (S-W-D21)", flipped(LOG, 396 + 16), 28, "BATCH_HEADER 22.log@396 28-29", index=""),
    Row("no magic in the first batch of a segment", overwritten(LOG, 16, b"\0"), 22, "BATCH_HEADER 22.log@0 22-23"),
    Row("a CRC", flipped(LOG, 396 + 17), 28, "BATCH_CRC 22.log@396 28-29", index=""),
    Row("attributes", flipped(LOG, 396 + 22), 28, "BATCH_CRC 22.log@396 28-29", batches="", index=""),
    Row("a last offset delta", flipped(LOG, 396 + 26, 4), 28, "BATCH_CRC 22.log@396 28-29", index=""),
    Row("a last offset delta that claims offsets of batches behind", overwritten(LOG, 316 + 25, b"\x07"), 26,
        "BATCH_CRC 22.log@316 26-27"),
    Row("a greatest timestamp", flipped(LOG, 396 + 42), 28, "BATCH_CRC 22.log@396 28-29", batches="", index=""),
    Row("a number of records", flipped(LOG, 396 + 60), 28, "BATCH_HEADER 22.log@396 28-29", index=""),
    Row("a batch that no header begins, and one behind it with a flipped bit",
        both(flipped(LOG, 396 + 16), flipped(LOG, 556 + 65)), 28,
        "BATCH_HEADER 22.log@396 28-29; BATCH_CRC 22.log@556 32-33", batches="BIT_ROT 22.log", index=""),
    Row("two base offsets next to each other", both(flipped(LOG, 316 + 6), flipped(LOG, 396 + 6)), 26,
        "BASE_OFFSET 22.log@316 26-27; BASE_OFFSET 22.log@396 28-29"),
    Row("a rotten batch, and a wrong base offset behind it: it ends where it says",
        both(flipped(LOG, 316 + 65), overwritten(LOG, 396, FAR)), 26,
        "BATCH_CRC 22.log@316 26-27; BASE_OFFSET 22.log@396 28-29", index=""),
    Row("a rotten batch, and a missing one behind it: its header says twice where it ends",
        both(flipped(LOG, 316 + 65), taken_out(LOG, 396, 476)), 26,
        "BATCH_CRC 22.log@316 26-27; HOLE 22.log@396 28-29; INDEX_ENTRY 22.index@16 31"),
    Row("a base offset too high behind a missing batch", both(overwritten(LOG, 476, FAR), taken_out(LOG, 396, 476)), 28,
        "BASE_OFFSET 22.log@396 28-31; HOLE 22.log@396 28-31; INDEX_ENTRY 22.index@16 31"),
    Row("a base offset too high before a missing batch", both(overwritten(LOG, 396, FAR), taken_out(LOG, 476, 556)), 28,
        "BASE_OFFSET 22.log@396 28-31; HOLE 22.log@396 28-31; INDEX_ENTRY 22.index@16 31"),
    Row("a base offset of zero behind a missing batch", both(overwritten(LOG, 476, bytes(8)), taken_out(LOG, 396, 476)),
        28, "BASE_OFFSET 22.log@396 28-31; HOLE 22.log@396 28-31; INDEX_ENTRY 22.index@16 31"),
    Row("a missing batch", taken_out(LOG, 396, 476), 28, "HOLE 22.log@396 28-29; INDEX_ENTRY 22.index@16 31"),
    Row("a missing first batch of a segment", taken_out(LAST, 0, 80), 34, "HOLE 34.log@0 34-35"),
    Row("a batch that comes twice", changed(LOG, lambda data: data[:476] + data[396:]), 30,
        "OFFSET_BACK 22.log@476 28-29; INDEX_ENTRY 22.index@16 31"),
    Row("a last batch that comes twice", changed(LAST, lambda data: data + data[80:]), 38,
        "OFFSET_BACK 34.log@160 36-37"),
    Row("a last batch that goes back", overwritten(LAST, 80, struct.pack(">q", 32)), 36, "BASE_OFFSET 34.log@80 36-37"),
    Row("a last batch beyond all others", overwritten(LAST, 80, FAR), 36,
        "HOLE 34.log@80 36-1099511627775; OUTSIDE_SEGMENT 34.log@80 1099511627776"),
    Row("a batch of the next segment", longer(LOG, leader_batch(34, 4, b"x")), None,
        "OFFSET_BACK 22.log@705 34; DIGEST 22.digest"),
    Row("a missing segment (LD-6)", missing(*SEGMENT_14), 14, "HOLE 0.log@606 14-21"),
    Row("zeros behind a sealed segment", longer(LOG, bytes(100)), 34, "SURPLUS 22.log@636 34"),
    Row("too few zeros for a header behind a sealed segment", longer(LOG, bytes(40)), 34, "SURPLUS 22.log@636 34"),
    Row("garbage behind a sealed segment", longer(LOG, b"\x5a" * 100), 34, "SURPLUS 22.log@636 34"),
    Row("the last batch of a sealed segment once more, all but its last byte",
        changed(LOG, lambda data: data + data[556:-1]), 34, "SURPLUS 22.log@636 34"),
    Row("a sealed segment without its last byte", cut(LOG, 1), 32, "TORN_SEGMENT 22.log@556 32; HOLE 22.log@635 32-33"),
    Row("a rotten last batch that hides no entry beyond it",
        both(overwritten(LAST, 80 + 25, b"\x07"), written(segment_file(34, "index"), offsets((3, 80), (12, 160)))), 36,
        "BATCH_CRC 34.log@80 36-1829; INDEX_BEYOND 34.index@8 46"),
    Row("zeros behind the last segment, as a torn write leaves them (S-W-D7, SG-8)", longer(LAST, bytes(20)), 38,
        "TORN_TAIL 34.log@160 38"),
    Row("a header behind the last segment whose records were never written",
        longer(LAST, leader_batch(38, 4, b"torn")[:61]), 38, "TORN_TAIL 34.log@160 38"),
    Row("garbage behind the last segment", longer(LAST, b"\x5a" * 100), 38, "BATCH_HEADER 34.log@160 38"),
    Row("records that do not decode, under a right CRC (RB-3)", sealed(LAST, flipped(LAST, 80 + 61, 0x40)), None,
        "RECORDS 34.log@80 36", deep=""),
    Row("compressed records that do not decompress (2.4)",
        sealed(segment_file(14, "log"), flipped(segment_file(14, "log"), 63, 0xFF)), None,
        "RECORDS 14.log@0 14; DIGEST 14.digest@0 14-16", deep="INDEX_LIE 14.digest 14-16", index=""),
    Row("a greatest timestamp that no record has, under a right CRC (RB-4)",
        sealed(LAST, overwritten(LAST, 80 + 35, struct.pack(">q", 40_999))), None, "TIMESTAMPS 34.log@80 36"),
    Row("a batch that was replaced by a sound one", sealed(LOG, overwritten(LOG, 476 + 68, b"Z")), None,
        "DIGEST 22.digest@24 28-31", index=""),
    # -- offset index
    Row("an entry where no batch is (IX-11)", both(OTHER_HAND, entry(INDEX, 0, 2, 161)), 38,
        "INDEX_ENTRY 22.index@0 24"),
    Row("an entry of a batch before the one that it points at", both(OTHER_HAND, entry(INDEX, 0, 1, 238)), 38,
        "INDEX_ENTRY 22.index@0 23"),
    Row("an entry within a batch (IX-10)", both(OTHER_HAND, entry(INDEX, 1, 4, 316)), 38, "INDEX_ENTRY 22.index@8 26"),
    Row("an entry whose offset goes back (IX-10)", both(OTHER_HAND, entry(INDEX, 1, 1, 316)), 38,
        "INDEX_ORDER 22.index@8 23"),
    Row("an entry whose position goes back (IX-10)", both(OTHER_HAND, entry(INDEX, 1, 5, 69)), 38,
        "INDEX_ORDER 22.index@8 27"),
    Row("a position of a later batch, which its neighbour contradicts", both(OTHER_HAND, entry(INDEX, 0, 2, 556)), 38,
        "INDEX_ENTRY 22.index@0 24"),
    Row("a negative offset", both(OTHER_HAND, entry(INDEX, 0, -1, 160)), 38, "INDEX_ORDER 22.index@0 21"),
    Row("an entry beyond the end", both(OTHER_HAND, entry(INDEX, 2, 50, 9999)), 38, "INDEX_BEYOND 22.index@16 72"),
    Row("a last entry for more than the segment has", both(OTHER_HAND, entry(INDEX, 2, 20, 556)), 38,
        "INDEX_BEYOND 22.index@16 42"),
    Row("a position before rotten bytes", both(OTHER_HAND, entry(INDEX, 1, 5, 325), flipped(LOG, 396 + 65)), 28,
        "INDEX_ENTRY 22.index@8 27; BATCH_CRC 22.log@396 28-29"),
    Row("a lie makes no liars of the entries behind it",
        both(OTHER_HAND, written(INDEX, offsets((5, 317), (7, 396), (9, 476)))), 38, "INDEX_ENTRY 22.index@0 27"),
    Row("entries per append, as Kafka writes them (SG-2, S-W-S1)",
        both(OTHER_HAND, written(INDEX, offsets((5, 160), (9, 396)))), 38, ""),
    Row("an append that would run into the next (SG-2)", both(OTHER_HAND, written(INDEX, offsets((5, 160), (7, 238)))),
        38, "INDEX_ENTRY 22.index@0 27"),
    Row("an append that begins with a rotten batch",
        both(OTHER_HAND, written(INDEX, offsets((9, 396))), flipped(LOG, 396 + 65)), 28, "BATCH_CRC 22.log@396 28-29",
        batches="", index=""),
    Row("an append that no header begins", both(OTHER_HAND, written(INDEX, offsets((9, 396))), flipped(LOG, 396 + 16)),
        28, "BATCH_HEADER 22.log@396 28-33"),
    Row("an entry of ours for the batch before (divergence 3)", entry(INDEX, 1, 3, 238), 38,
        "INDEX_ENTRY 22.index@8 25"),
    Row("an entry of ours for the batch behind", entry(INDEX, 1, 7, 396), 38,
        "NO_TIME_ENTRY 22.timeindex@24 29; INDEX_ENTRY 22.index@8 29"),
    Row("an entry of ours with the position of the batch before", entry(INDEX, 1, 5, 238), 38,
        "INDEX_ENTRY 22.index@8 27"),
    Row("an entry of ours with the position of the batch behind", entry(INDEX, 1, 5, 396), 38,
        "INDEX_ENTRY 22.index@8 27"),
    Row("part of an offset entry (S-W-D10)", longer(INDEX, b"abc"), 38, "INDEX_SHAPE 22.index@24 22"),
    Row("an offset index of zeros at its end (IX-2)", longer(INDEX, bytes(240)), 38, "NOT_TRIMMED 22.index@24 22"),
    # -- time index
    Row("a timestamp that is not its batch's (IX-15)", both(OTHER_HAND, entry(TIMES, 0, 30_002, 1)), 38,
        "INDEX_ENTRY 22.timeindex@0 23"),
    Row("a time entry for the batch before (IX-16)", both(OTHER_HAND, entry(TIMES, 1, 40_000, 3)), 38,
        "INDEX_ENTRY 22.timeindex@12 25"),
    Row("timestamps that go back", both(OTHER_HAND, entry(TIMES, 1, 5, 5)), 38, "INDEX_ORDER 22.timeindex@12 27"),
    Row("a time entry beyond the end", both(OTHER_HAND, entry(TIMES, 3, 40_003, 99)), 38,
        "INDEX_BEYOND 22.timeindex@36 121"),
    Row("a time entry that hides an earlier batch", both(OTHER_HAND, written(TIMES, struct.pack(">qi", 1000, 3))), 38,
        "INDEX_ENTRY 22.timeindex@0 25", index=""),
    Row("a time entry that names a record within its batch, as Kafka 3.3 writes it",
        both(OTHER_HAND, entry(TIMES, 1, 40_000, 4)), 38, ""),
    Row("a time entry of ours that names a record within its batch", entry(TIMES, 1, 40_000, 4), 38,
        "INDEX_ENTRY 22.timeindex@12 26"),
    Row("a time entry that lies makes no liar of the one behind it", entry(TIMES, 0, 30_003, 5), 38,
        "NO_TIME_ENTRY 22.timeindex@0 24; INDEX_ENTRY 22.timeindex@0 27"),
    Row("an offset entry of ours without a time entry", changed(TIMES, lambda data: data[12:]), 38,
        "NO_TIME_ENTRY 22.timeindex@0 24"),
    Row("part of a time entry", longer(TIMES, b"abc"), 38, "INDEX_SHAPE 22.timeindex@48 22"),
    Row("a time index of zeros at its end (IX-6)", longer(TIMES, bytes(240)), 38, "NOT_TRIMMED 22.timeindex@48 22"),
    # -- digest index
    Row("a digest", flipped(DIGESTS, 12 + 9), 38, "DIGEST 22.digest@12 25-27", index=""),
    Row("a digest for an offset within a batch", changed(DIGESTS, lambda data: data[:15] + b"\4" + data[16:]), 38,
        "DIGEST 22.digest@12 26"),
    Row("a digest for an offset far away", changed(DIGESTS, lambda data: data[:14] + b"\x27" + data[15:]), 38,
        "INDEX_BEYOND 22.digest@12 10011"),
    Row("an offset entry of ours without a digest (divergence 3)", taken_out(DIGESTS, 12, 24), 38,
        "INDEX_ENTRY 22.index@8 27"),
    Row("a sealed segment without its last digest", cut(DIGESTS, 12), 38, "DIGEST 22.digest"),
    Row("part of a digest", longer(DIGESTS, b"abc"), 38, "INDEX_SHAPE 22.digest@48 22"),
    # -- transaction index
    Row("another producer (IX-19, PS-6)", overwritten(TXN, 2, struct.pack(">q", 99)), 38,
        "TRANSACTION_INDEX 22.txnindex@0 24; TRANSACTION_INDEX 22.txnindex 24"),
    Row("another first offset of a transaction", overwritten(TXN, 10, struct.pack(">q", 15)), 38,
        "TRANSACTION_INDEX 22.txnindex@0 24"),
    Row("a transaction whose marker is not there", overwritten(TXN, 18, struct.pack(">q", 23)), 38,
        "TRANSACTION_INDEX 22.txnindex@0 23; TRANSACTION_INDEX 22.txnindex 24"),
    Row("another last stable offset", overwritten(TXN, 26, struct.pack(">q", 20)), 38,
        "TRANSACTION_INDEX 22.txnindex@0 24"),
    Row("a transaction that is not indexed", missing(TXN), 38, "TRANSACTION_INDEX 22.txnindex 24"),
    Row("a transaction index of another version", overwritten(TXN, 0, struct.pack(">h", 3)), 38,
        "INDEX_ORDER 22.txnindex@0 24; TRANSACTION_INDEX 22.txnindex 24"),
    Row("part of a transaction", longer(TXN, b"abc"), 38, "INDEX_SHAPE 22.txnindex@34 22"),
    Row("an empty transaction index", written(TXN), 38, "TRANSACTION_INDEX 22.txnindex 24"),
    Row("an entry too many", longer(TXN, struct.pack(">hqqqq", 0, 6, 13, 25, 26)), 38,
        "TRANSACTION_INDEX 22.txnindex@34 25"),
    Row("an entry of a transaction beyond the end", longer(TXN, struct.pack(">hqqqq", 0, 6, 13, 99, 100)), 38,
        "INDEX_BEYOND 22.txnindex@34 99"),
    Row("a transaction index where there is none", written(segment_file(14, "txnindex"), bytes(34)), 38,
        "INDEX_ORDER 14.txnindex@0 0"),
    # -- producer snapshots
    Row("a flipped bit (PS-7)", flipped(STATE, 20), 38, "SNAPSHOT 34.snapshot", deep="INDEX_LIE 34.snapshot 33-33"),
    Row("an empty snapshot file", written(STATE), 38, "SNAPSHOT 34.snapshot", deep="INDEX_LIE 34.snapshot 33-33"),
    Row("another sequence, under a right CRC", producers(STATE, 5, last_sequence=7), 38,
        "SNAPSHOT_STATE 34.snapshot 21", deep=STATE_FAULT.format(21, 21)),
    Row("another last offset", producers(STATE, 6, last_offset=20), 38, "SNAPSHOT_STATE 34.snapshot 20",
        deep=STATE_FAULT.format(20, 22)),
    Row("an open transaction that has ended", producers(STATE, 5, current_txn_first_offset=18), 38,
        "SNAPSHOT_STATE 34.snapshot 21", deep=STATE_FAULT.format(21, 21)),
    Row("a producer of later batches", producers(STATE, 5, last_offset=35), 38, "SNAPSHOT_STATE 34.snapshot 35",
        deep=STATE_FAULT.format(35, 21)),
    Row("a snapshot that knows fewer producers, which expire (PS-11)", producers(STATE, 5, gone=True), 38, ""),
    Row("a missing snapshot", missing(STATE), 38, ""),
    Row("another sequence in the snapshot of the log end", producers(segment_file(38, "snapshot"), 5, last_sequence=7),
        38, "SNAPSHOT_STATE 38.snapshot 21"),
    # -- epochs
    Row("epochs that begin too early", written(EPOCHS, b"0\n3\n0 0\n1 4\n4 26\n"), 38,
        "EPOCHS leader-epoch-checkpoint 4", deep="EPOCH_CACHE_LIE 0.log 4-5"),
    Row("epochs that begin too late (LD-13)", written(EPOCHS, b"0\n3\n0 0\n1 8\n4 26\n"), 38,
        "EPOCHS leader-epoch-checkpoint 6", deep="EPOCH_CACHE_LIE 0.log 6-7", index=""),
    Row("another epoch (EP-1)", written(EPOCHS, b"0\n3\n0 0\n1 6\n3 26\n"), 38, "EPOCHS leader-epoch-checkpoint 26",
        deep="EPOCH_CACHE_LIE 22.log 26-33; EPOCH_CACHE_LIE 34.log 34-37"),
    Row("a missing first epoch", written(EPOCHS, b"0\n2\n1 6\n4 26\n"), 38, "EPOCHS leader-epoch-checkpoint 0",
        deep="EPOCH_CACHE_LIE 0.log 0-5"),
    Row("a missing epoch", written(EPOCHS, b"0\n2\n0 0\n4 26\n"), 38, "EPOCHS leader-epoch-checkpoint 6",
        deep="EPOCH_CACHE_LIE 0.log 6-13; EPOCH_CACHE_LIE 14.log 14-21; EPOCH_CACHE_LIE 22.log 22-25"),
    Row("an epoch too many", written(EPOCHS, b"0\n4\n0 0\n1 6\n2 13\n4 26\n"), 38, "EPOCHS leader-epoch-checkpoint 13",
        deep="EPOCH_CACHE_LIE 0.log 13-13; EPOCH_CACHE_LIE 14.log 14-21; EPOCH_CACHE_LIE 22.log 22-25"),
    Row("an empty epoch checkpoint", written(EPOCHS), 38, "EPOCHS leader-epoch-checkpoint"),
    Row("no epoch checkpoint", missing(EPOCHS), 38, "EPOCHS leader-epoch-checkpoint"),
    Row("an epoch beyond the end (S-W-D16)", written(EPOCHS, b"0\n4\n0 0\n1 6\n4 26\n7 39\n"), 38, ""),
    Row("an epoch checkpoint that cannot be read", written(EPOCHS, b"garbage"), 38,
        "MALFORMED leader-epoch-checkpoint"),
]
# fmt: on
