"""At which level of the audit each fault must be seen, and why it cannot be at others."""

from dataclasses import dataclass

from tests.audit.cases import KAFKA, OURS, Case, Cause

LEVELS = ("deep", "batches", "index", "digest")

EXACT = "the finding that level deep has: class, replica, first offset"
ROUGH = "a finding of that replica, at about these offsets; the class, or the very offset, takes a deeper level"
PERHAPS = "such a finding, or none: it depends on where index entries happen to be"
NEVER = "nothing"


@dataclass(frozen=True)
class Row:
    """What levels other than deep say, in our layout and in Kafka's, which has no digest indexes."""

    batches: str
    index: str
    digest: str
    why: str
    index_kafka: str | None = None  # as `index`, if None
    layouts: tuple[str, ...] = (OURS, KAFKA)


_BYTES = "what is compared without digest indexes is sizes"
_CRC = "the CRC of bytes that nobody reads cannot be recomputed"
_VISITED = "headers are read where index entries point; the others are not"
_BELIEVED = "digest indexes are believed, and other files not read"

SEEN = {
    "value, same size": Row(EXACT, EXACT, ROUGH, _BYTES, index_kafka=NEVER),
    "value, other size": Row(EXACT, EXACT, ROUGH, ""),
    "other batches": Row(EXACT, EXACT, ROUGH, ""),
    "divergent suffix": Row(EXACT, EXACT, ROUGH, ""),
    "batch of another epoch": Row(EXACT, EXACT, ROUGH, _BYTES, index_kafka=NEVER),
    "changed epoch": Row(EXACT, PERHAPS, PERHAPS, _VISITED),
    "rotten record": Row(NEVER, NEVER, NEVER, _CRC),
    "rotten header": Row(PERHAPS, PERHAPS, PERHAPS, _CRC + "; only a field that contradicts others is seen"),
    "rotten CRC": Row(ROUGH, PERHAPS, PERHAPS, _CRC + "; other replicas have another one"),
    "rotten length": Row(EXACT, PERHAPS, PERHAPS, _VISITED),
    "rotten magic": Row(EXACT, PERHAPS, PERHAPS, _VISITED),
    "rotten base offset": Row(EXACT, PERHAPS, PERHAPS, _VISITED),
    "zeros": Row(PERHAPS, PERHAPS, PERHAPS, _CRC + "; zeros in the place of a header are seen"),
    "lost batch": Row(EXACT, ROUGH, PERHAPS, _VISITED),
    "lost tail": Row(EXACT, EXACT, EXACT, ""),
    "lost segment": Row(EXACT, EXACT, EXACT, ""),
    "emptied segment": Row(EXACT, EXACT, EXACT, ""),
    "lost first segment": Row(NEVER, NEVER, NEVER, "it cannot be told from retention, at level deep neither"),
    "lost replica": Row(EXACT, EXACT, EXACT, ""),
    "gap": Row(EXACT, ROUGH, PERHAPS, _VISITED),
    "offset index: position": Row(EXACT, EXACT, PERHAPS, _BELIEVED),
    "offset index: offset": Row(EXACT, EXACT, PERHAPS, _BELIEVED),
    "time index: timestamp": Row(EXACT, PERHAPS, NEVER, "an entry is held against its own batch, not those before it"),
    "time index: offset": Row(EXACT, EXACT, NEVER, _BELIEVED),
    "digest index: digest": Row(EXACT, ROUGH, PERHAPS, "without the batches, only other replicas contradict it"),
    "digest index: offset": Row(EXACT, ROUGH, PERHAPS, "without the batches, only other replicas contradict it"),
    "index: not whole entries": Row(EXACT, EXACT, PERHAPS, _BELIEVED),
    "epoch begins elsewhere": Row(EXACT, PERHAPS, NEVER, _VISITED),
    "other epoch": Row(EXACT, PERHAPS, NEVER, _VISITED),
    "missing epoch": Row(EXACT, PERHAPS, NEVER, _VISITED),
    "unusable epochs": Row(EXACT, EXACT, EXACT, ""),
    "unreadable log": Row(EXACT, EXACT, ROUGH, _BELIEVED),
    "unreadable index": Row(EXACT, EXACT, PERHAPS, _BELIEVED),
    "unreadable epochs": Row(EXACT, EXACT, EXACT, ""),
    "no high watermark": Row(EXACT, EXACT, EXACT, ""),
}
for _name in ("digest index: digest", "digest index: offset"):
    SEEN[_name] = Row(**{**SEEN[_name].__dict__, "layouts": (OURS,)})


def seen(case: Case, cause: Cause, level: str) -> str:
    """What the level says of this cause in this case."""
    row = SEEN[cause.name]
    if level == "deep":
        return EXACT
    if level == "batches":
        return row.batches
    if level == "index":
        return row.index_kafka or row.index if case.layout == KAFKA else row.index
    return row.digest
