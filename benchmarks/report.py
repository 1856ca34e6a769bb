"""Writes a benchmark's figures to the terminal, into a file, and between its two marks in a document."""

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.measure import environment

_ROW = 1000  # the most characters of a line


def benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that `publish` needs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--report", type=Path, help="a Markdown file whose marked table is replaced")
    return parser


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, whose columns line up on a terminal."""
    lines = [head, ["---"] * len(head), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def publish(benchmark: str, shown: str, figures: Mapping[str, object], options: argparse.Namespace) -> None:
    """Print `shown`, and write the files that the options name."""
    shown = f"{shown}\n\n{environment()}"
    if options.json:
        options.json.write_text(lines_of({"environment": environment(), **figures}) + "\n")
    if options.report:
        write(options.report, benchmark, shown)
    print(shown)


def lines_of(figures: object, indent: str = "") -> str:
    """Return figures as JSON with six significant digits; a short list or object is on one line."""
    if isinstance(figures, float):
        return json.dumps(float(f"{figures:.6g}"))
    if not isinstance(figures, Mapping | list | tuple):
        return json.dumps(figures, ensure_ascii=False)
    deeper = indent + "  "
    if isinstance(figures, Mapping):
        parts = [
            f"{json.dumps(str(name), ensure_ascii=False)}: {lines_of(each, deeper)}" for name, each in figures.items()
        ]
        begin, end = "{", "}"
    else:
        parts, (begin, end) = [lines_of(each, deeper) for each in figures], "[]"
    line = f"{begin}{', '.join(parts)}{end}"
    if "\n" not in line and len(line) <= _ROW:
        return line
    return f"{begin}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{end}"


def marks(benchmark: str) -> tuple[str, str]:
    """Return the lines between which a document has the table of `benchmarks.{benchmark}`."""
    return f"<!-- {benchmark}, written by benchmarks.{benchmark} with --report -->", f"<!-- end of {benchmark} -->"


def write(path: Path, benchmark: str, body: str) -> None:
    """Replace the text between the marks. Raises ValueError if they are missing."""
    begin, end = marks(benchmark)
    text = path.read_text()
    if begin not in text or end not in text:
        raise ValueError(f"{path} has no lines {begin} and {end}")
    section = f"{begin}\n\n{body}\n\n{end}"
    path.write_text(re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: section, text, flags=re.DOTALL))
