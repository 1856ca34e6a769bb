"""Shows values, even hostile ones, as text for people."""

from spark_jobs.replicas.faults import UNREADABLE

MAX_TEXT = 1000  # characters of one value
_SPACE = "\N{NARROW NO-BREAK SPACE}"


def number(value: int) -> str:
    """Return `1 234 567` with narrow no-break spaces, which do not wrap and suit every country."""
    return f"{value:,}".replace(",", _SPACE)


def many(count: int, word: str) -> str:
    """Return `1 finding`, or `2 findings`."""
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


def name_of(topic: str, partition: int) -> str:
    """Return `orders-3`, or the name of a whole log directory, which is partition -1."""
    return f"{topic}-{partition}" if partition >= 0 else "whole log directory"


def blamed(kind: str, wrong: int | None, why: str) -> str:
    """Say which replica is wrong and why, or why nothing tells which; only `why` if something could not be read."""
    if wrong is None and kind == UNREADABLE:
        return why
    who = "nothing tells which replica" if wrong is None else f"replica {wrong}"
    return why if why.startswith(who) else f"{who}: {why}"


def printable(text: str) -> str:
    """Return `text` on one line, without characters that could hide or reorder others; a cut is marked."""
    if not text.replace(_SPACE, "").isprintable():
        text = "".join(c if c.isprintable() or c == _SPACE else c.encode("unicode_escape").decode() for c in text)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters: see findings.parquet)"
    return text
