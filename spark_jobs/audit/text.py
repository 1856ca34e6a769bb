"""Text for people: numbers, and values that may be hostile; a finding on a terminal, with headers side by side, hex
dumps and entries, in a pipe as plain text."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.markup import escape

from replog.command.terminal import TerminalWriter, table_of
from spark_jobs.replicas.faults import UNREADABLE

MAX_TEXT = 1000  # characters of one value
_SPACE = "\N{NARROW NO-BREAK SPACE}"
TIMES = ("baseTimestamp", "maxTimestamp")

Json = Mapping[str, Any]


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


# -- findings


def print_findings(report: Json, findings: Sequence[Json]) -> None:
    """Print one line for each finding, with its number."""
    writer = TerminalWriter()
    table = table_of("N", "class", "partition", "offsets", "wrong", "why", right=("N",))
    for finding in findings:
        wrong = "-" if finding["wrong_replica"] is None else f"replica {finding['wrong_replica']}"
        place = name_of(finding["topic"], finding["partition"])
        row = (str(finding["number"]), finding["class"], place, _offsets(finding), wrong, finding["why"])
        table.add_row(*map(_safe, row))
    if findings:
        writer.table(table)
    more = "" if report.get("complete", True) else " (there are more than the report lists)"
    writer.line(_safe(f"{report.get('verdict', '')}: {many(len(findings), 'finding')}{more}"))
    if findings:
        writer.line("one of them in full: give its number")


def print_explanation(shown: Json, of: int) -> None:
    """Print everything about one finding. `of` is the number of all findings."""
    writer = TerminalWriter()
    batches = f", {shown['batches']} batches" if shown.get("batches", 1) > 1 else ""
    print_finding(writer, shown, f"finding {shown['number']} of {of}{batches}: ")
    writer.paragraph("means", shown["meaning"])
    _print_batches(writer, shown)
    for dump in shown["bytes"]:
        _print_dump(writer, dump)
    for index in shown["indexes"]:
        _print_index(writer, index)
    _print_epochs(writer, shown)


def print_finding(writer: TerminalWriter, finding: Json, head: str) -> None:
    """Print what a report has of a finding."""
    place = name_of(finding["topic"], finding["partition"])
    offsets = f", offsets {_offsets(finding)}" if finding["first_offset"] is not None else ""
    writer.line(f"{head}[bold red]{_safe(finding['class'])}[/] {_safe(place + offsets)}")
    about = "about" if finding["class"] == UNREADABLE else "wrong"
    writer.paragraph(about, printable(blamed(finding["class"], finding["wrong_replica"], finding["why"])))
    for evidence in finding["evidence"]:
        at = "" if evidence["position"] is None else f" at byte {evidence['position']}"
        said = "" if evidence["seen"] in finding["why"] else f": {evidence['seen']}"
        writer.paragraph("seen", printable(f"{evidence['file']}{at}{said}"))
    writer.paragraph("remedy", printable(finding["remedy"]))


def _print_batches(writer: TerminalWriter, shown: Json) -> None:
    columns = [column for column in shown["headers"] if column["fields"] is not None]
    if shown["headers"]:
        _title(writer, f"the batch at offset {shown['first_offset']} in each replica")
    for column in shown["headers"]:
        if column["note"]:
            writer.line(_safe(f"replica {column['replica']}: {column['note']}"))
    if not columns:
        return
    table = table_of("", *(f"replica {column['replica']}" for column in columns), "")
    table.add_row("segment", *(_safe(column["file"].rpartition("/")[2]) for column in columns), "")
    table.add_row("position", *(str(column["position"]) for column in columns), "")
    for name in columns[0]["fields"]:
        values = [_value(name, column["fields"][name]) for column in columns]
        differs = name in shown["differs"]
        table.add_row(name, *values, "≠" if differs else "", style="bold red" if differs else None)
    writer.table(table)


def _value(name: str, value: Any) -> str:
    if name in TIMES and 0 <= value < 4e12:
        return f"{value} ({datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else _safe(str(value))


def _print_dump(writer: TerminalWriter, dump: Json) -> None:
    first = dump["first_difference"]
    _title(writer, f"replica {dump['replica']}: {dump['file']}")
    if first is not None:
        writer.line(
            f"byte {first} of the batch (byte {dump['batch'] + first} of the file) is the first of "
            f"{dump['differing']} that differ from replica {dump['compared_with']}"
        )
    if dump["note"]:
        writer.line(_safe(dump["note"]))
    data = bytes.fromhex(dump["hex"])
    for at in range(0, len(data), 16):
        line = data[at : at + 16]
        differ = [at + n in dump["differs"] for n in range(len(line))]
        words = [_marked(f"{byte:02x}", marked) for byte, marked in zip(line, differ, strict=True)]
        plain = [chr(byte) if 32 <= byte < 127 and chr(byte) not in "\\[" else "." for byte in line]
        characters = [_marked(character, marked) for character, marked in zip(plain, differ, strict=True)]
        here = first is not None and 0 <= first - dump["from"] - at < 16
        position = dump["batch"] + dump["from"] + at
        padding = "   " * (16 - len(line))
        writer.line(f"{'>' if here else ' '} {position:>12}  {' '.join(words)}{padding}  {''.join(characters)}")
        if any(differ) and not writer.colours:
            writer.line((" " * 16 + " ".join("^^" if marked else "  " for marked in differ)).rstrip())


def _marked(text: str, marked: bool) -> str:
    return f"[bold red]{text}[/]" if marked else text


def _print_index(writer: TerminalWriter, index: Json) -> None:
    _title(writer, f"replica {index['replica']}: entries of {index['file']}")
    if index["note"]:
        writer.line(_safe(index["note"]))
    if not index["entries"]:
        return
    names = [name for name in index["entries"][0] if name not in ("log", "suspect")]
    table = table_of("", *names, "the log says")
    for entry in index["entries"]:
        values = [str(entry[name]) for name in names]
        mark, style = (">", "bold red") if entry["suspect"] else ("", None)
        table.add_row(mark, *values, _safe(entry["log"]), style=style)
    writer.table(table)


def _print_epochs(writer: TerminalWriter, shown: Json) -> None:
    if not shown["epochs"]:
        return
    _title(writer, f"leader epochs around offset {shown['first_offset']} (epoch@start offset; > covers it)")
    for held in shown["epochs"]:
        entries = [f"{'>' if e['covers'] else ''}{e['epoch']}@{e['start_offset']}" for e in held["entries"]]
        writer.line(_safe(f"replica {held['replica']}: {'  '.join([*entries, held['note']])}".rstrip()))


def _offsets(finding: Json) -> str:
    if finding["first_offset"] is None:
        return "all"
    return f"{finding['first_offset']} to {finding['last_offset']}"


def _title(writer: TerminalWriter, text: str) -> None:
    writer.line(f"\n[bold]{_safe(text)}[/]")


def _safe(text: str) -> str:
    """Return the text as Rich's markup, with everything escaped."""
    return escape(printable(text))
