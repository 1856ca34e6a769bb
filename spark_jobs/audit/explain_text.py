"""A finding on the terminal: paragraphs, headers side by side, hex dumps, entries. Plain text in a pipe."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

UNLIMITED = 1 << 20  # columns
TIMES = ("baseTimestamp", "maxTimestamp")

Json = Mapping[str, Any]


def print_findings(report: Json, findings: Sequence[Json]) -> None:
    """A line a finding, with the number to ask for it."""
    table = _table("N", "class", "partition", "offsets", "wrong", "why")
    for finding in findings:
        wrong = "-" if finding["wrong_replica"] is None else f"replica {finding['wrong_replica']}"
        place = f"{finding['topic']}-{finding['partition']}"
        row = (str(finding["number"]), finding["class"], place, _offsets(finding), wrong, finding["why"])
        table.add_row(*map(escape, row))
    if findings:
        _print(table)
    more = "" if report.get("complete", True) else " (there are more than the report lists)"
    _print(f"{report.get('verdict', '')}: {len(findings)} findings{more}")
    if findings:
        _print("one of them in full: give its number")


def print_explanation(shown: Json, of: int) -> None:
    """Everything that there is to see of one finding."""
    place = f"{shown['topic']}-{shown['partition']}"
    offsets = f", offsets {_offsets(shown)}" if shown["first_offset"] is not None else ""
    batches = f" ({shown['batches']} batches)" if shown.get("batches", 1) > 1 else ""
    _print(
        f"[bold red]{escape(shown['class'])}[/] {escape(place + offsets + batches)}, finding {shown['number']} of {of}"
    )
    wrong = "nothing tells" if shown["wrong_replica"] is None else f"replica {shown['wrong_replica']}"
    told = {
        "means": shown["meaning"],
        "wrong": f"{wrong}: {shown['why']}",
        "remedy": shown["remedy"],
    }
    for name, text in told.items():
        _print(f"[bold]{name:<8}[/]{escape(text)}", wrap=True)
    for evidence in shown["evidence"]:
        at = "" if evidence["position"] is None else f" at byte {evidence['position']}"
        _print(f"[bold]{'seen':<8}[/]" + escape(f"{evidence['file']}{at}: {evidence['seen']}"), wrap=True)
    _print_batches(shown)
    for dump in shown["bytes"]:
        _print_dump(dump)
    for index in shown["indexes"]:
        _print_index(index)
    _print_epochs(shown)


def _print_batches(shown: Json) -> None:
    columns = [column for column in shown["headers"] if column["fields"] is not None]
    if shown["headers"]:
        _title(f"the batch at offset {shown['first_offset']} in each replica")
    for column in shown["headers"]:
        if column["note"]:
            _print(escape(f"replica {column['replica']}: {column['note']}"), wrap=True)
    if not columns:
        return
    table = _table("", *(f"replica {column['replica']}" for column in columns), "")
    table.add_row("segment", *(escape(column["file"].rpartition("/")[2]) for column in columns), "")
    table.add_row("position", *(str(column["position"]) for column in columns), "")
    for name in columns[0]["fields"]:
        values = [_value(name, column["fields"][name]) for column in columns]
        differs = name in shown["differs"]
        style = "bold red" if differs else None
        table.add_row(name, *values, "≠" if differs else "", style=style)
    _print(table)


def _value(name: str, value: Any) -> str:
    if name in TIMES and 0 <= value < 4e12:
        return f"{value} ({datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else escape(str(value))


def _print_dump(dump: Json) -> None:
    first = dump["first_difference"]
    title = f"replica {dump['replica']}: {dump['file']}"
    if first is not None:
        title += (
            f"\nbyte {first} of the batch (byte {dump['batch'] + first} of the file) is the first of "
            f"{dump['differing']} that differ from replica {dump['compared_with']}"
        )
    _title(title)
    if dump["note"]:
        _print(escape(dump["note"]))
    data = bytes.fromhex(dump["hex"])
    for at in range(0, len(data), 16):
        line = data[at : at + 16]
        words = [_marked(f"{byte:02x}", at + n in dump["differs"]) for n, byte in enumerate(line)]
        characters = [_marked(_character(byte), at + n in dump["differs"]) for n, byte in enumerate(line)]
        here = first is not None and 0 <= first - dump["from"] - at < 16
        position = dump["batch"] + dump["from"] + at
        padding = "   " * (16 - len(line))
        _print(f"{'>' if here else ' '} {position:>12}  {' '.join(words)}{padding}  {''.join(characters)}")


def _character(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in "\\[" else "."


def _marked(text: str, marked: bool) -> str:
    return f"[bold red]{text}[/]" if marked else text


def _print_index(index: Json) -> None:
    _title(f"replica {index['replica']}: entries of {index['file']}")
    if index["note"]:
        _print(escape(index["note"]))
    if not index["entries"]:
        return
    names = [name for name in index["entries"][0] if name not in ("log", "suspect")]
    table = _table("", *names, "the log says")
    for entry in index["entries"]:
        values = [str(entry[name]) for name in names]
        style = "bold red" if entry["suspect"] else None
        table.add_row(">" if entry["suspect"] else "", *values, escape(entry["log"]), style=style)
    _print(table)


def _print_epochs(shown: Json) -> None:
    if not shown["epochs"]:
        return
    _title(f"leader epochs around offset {shown['first_offset']} (epoch@start offset; > covers it)")
    for held in shown["epochs"]:
        entries = [f"{'>' if e['covers'] else ''}{e['epoch']}@{e['start_offset']}" for e in held["entries"]]
        _print(escape(f"replica {held['replica']}: {'  '.join([*entries, held['note']])}".rstrip()), wrap=True)


def _offsets(finding: Json) -> str:
    if finding["first_offset"] is None:
        return "all"
    return f"{finding['first_offset']} to {finding['last_offset']}"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _title(text: str) -> None:
    _print(f"\n[bold]{escape(text)}[/]")


def _print(what: str | Table, *, wrap: bool = False) -> None:
    """A pipe has no edge to wrap at."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED
        if isinstance(what, Table):
            console.width = console.measure(what, options=console.options.update(max_width=UNLIMITED)).maximum
    console.print(what, soft_wrap=isinstance(what, str) and not wrap)
