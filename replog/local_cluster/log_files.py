"""Reads the last lines of a process's log file."""

import re
from pathlib import Path

LOG_TAIL_LINES, LOG_TAIL_BYTES = 12, 16 << 10

_LOADING = re.compile(r'"progress": "([^"]*)", "event": "loading logs"')
_ENDED = "error: "
_OF_LOG = re.compile(r"[{(]|\d{4}-\d\d-\d\dT")  # a line of JSON or for people, or a remark of `log_tail`


def log_tail(path: Path) -> str:
    """Return the last lines, indented, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"(cannot read it: {error})"
    return "\n".join("  " + line for line in lines[-LOG_TAIL_LINES:]) or "  (it is empty)"


def loading(path: Path) -> str:
    """Return the progress of a broker that loads its logs, if it logs any."""
    told = _LOADING.findall(log_tail(path))
    return f", {told[-1]}" if told else ""


def last_words(path: Path) -> str:
    """Return the reason why a process ended by itself, which is its last line; empty if it said none."""
    last = log_tail(path).splitlines()[-1].strip()
    return "" if _OF_LOG.match(last) else last.removeprefix(_ENDED)


def why_ended(path: Path) -> str:
    """Return why a process ended, as far as it said so, and where its log is."""
    return f"{last_words(path) or 'without a word'} (log: {path})"
