"""A benchmark's place in a document: what stands between its two marks."""

import re
from pathlib import Path


def marks(benchmark: str) -> tuple[str, str]:
    """The lines that begin and end the place of `benchmarks.{benchmark}`."""
    return f"<!-- {benchmark}, written by benchmarks.{benchmark} with --report -->", f"<!-- end of {benchmark} -->"


def write(path: Path, benchmark: str, found: str) -> None:
    """Replace what stands between the marks. Raises ValueError if they are not there."""
    begin, end = marks(benchmark)
    text = path.read_text()
    if begin not in text or end not in text:
        raise ValueError(f"{path} has no lines {begin} and {end}")
    section = f"{begin}\n\n{found}\n\n{end}"
    path.write_text(re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: section, text, flags=re.DOTALL))
