"""Values as text for people, even if they are hostile."""

from spark_jobs.replicas.faults import UNREADABLE

MAX_TEXT = 1000  # characters of one value
_SPACE = "\N{NARROW NO-BREAK SPACE}"


def number(value: int) -> str:
    """`1 234 567`, with narrow no-break spaces: it does not wrap, and does not depend on a country."""
    return f"{value:,}".replace(",", _SPACE)


def many(count: int, word: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


def name_of(topic: str, partition: int) -> str:
    """`orders-3`; a whole log directory is partition -1 of no topic."""
    return f"{topic}-{partition}" if partition >= 0 else "whole log directory"


def blamed(kind: str, wrong: int | None, why: str) -> str:
    """Which replica is wrong, and why. If that could not be settled, why not: no replica need be wrong."""
    if wrong is None and kind == UNREADABLE:
        return why
    who = "nothing tells which replica" if wrong is None else f"replica {wrong}"
    return why if why.startswith(who) else f"{who}: {why}"


def printable(text: str) -> str:
    """`text` on one line, without characters that could hide or reorder others. It says so if it is too long."""
    if not text.replace(_SPACE, "").isprintable():
        text = "".join(c if c.isprintable() or c == _SPACE else c.encode("unicode_escape").decode() for c in text)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters: see findings.parquet)"
    return text
