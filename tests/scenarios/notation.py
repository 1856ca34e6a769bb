"""Logs, caches and answers in text: `1:0-9 3:10-19 (6@20) hw 15`, both ways."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replog.errors import ErrorCode
from replog.fetch import FetchAnswer
from replog.log.batch import iterate_batches
from replog.log.epoch_cache import EpochEntry
from replog.log.log import Log
from replog.log.offsets import Buffer
from tests.leader.replicas import bytes_of, log_of
from tests.scenarios.language import ScenarioError

NOTHING = "∅"
_RUN = r"\d+:\d+(?:-\d+)?"
_ENTRY = r"\(\d+@\d+\)"
_LOG = re.compile(
    rf"(?P<records>{NOTHING}(?:@(?P<at>\d+))?|{_RUN}(?: {_RUN})*)?(?P<own_epoch> ?{_ENTRY})?"
    rf"(?: cache (?P<cache>{NOTHING}|{_ENTRY}(?: {_ENTRY})*))?(?: hw (?P<hw>\d+))?"
)


def make_log(directory: Path, text: str, **settings: Any) -> Log:
    """The log that `text` describes, its records in batches of one."""
    match = _LOG.fullmatch(text)
    if match is None or not text:
        raise ScenarioError(f"{text!r} is no log; one is written `1:0-9 3:10-19 (6@20) hw 15`, or {NOTHING}")
    runs = [_closed(run) for run in re.findall(_RUN, match["records"] or "")]
    log = log_of(directory, *runs, *re.findall(_ENTRY, match["own_epoch"] or ""), **settings)
    if match["at"]:
        log.truncate_fully_and_start_at(int(match["at"]))
    log.update_high_watermark(int(match["hw"] or 0))
    if match["cache"]:
        log.epochs.replace(parse_entries(match["cache"]))
    return log


def _closed(run: str) -> str:
    return run if "-" in run else f"{run}-{run.partition(':')[2]}"


def parse_entries(text: str) -> list[EpochEntry]:
    return [(int(epoch), int(start)) for epoch, start in re.findall(r"\((\d+)@(\d+)\)", text)]


def show_entries(entries: Iterable[EpochEntry]) -> str:
    return " ".join(f"({epoch}@{start})" for epoch, start in entries) or NOTHING


def show_log(log: Log) -> str:
    """Records from the log start on, the epoch cache as far as they do not tell it, the high watermark."""
    runs = runs_of(bytes_of(log), log.log_start_offset)
    entries = list(log.epochs.entries)
    shown = show_runs(runs)
    if not runs and log.log_end_offset:
        shown += f"@{log.log_end_offset}"
    told = [(epoch, first) for epoch, first, _ in runs]
    if entries[:-1] == told and entries[-1:] and entries[-1][1] == log.log_end_offset:
        shown += f" ({entries[-1][0]}@{entries[-1][1]})"  # begun, and nothing written yet
    elif entries != told:
        shown += f" cache {show_entries(entries)}"
    return f"{shown} hw {log.high_watermark}"


def runs_of(records: Buffer, start: int = 0) -> list[tuple[int, int, int]]:
    """(leader epoch, first offset, last offset) of each epoch's records."""
    runs: list[tuple[int, int, int]] = []
    for _, header in iterate_batches(records):
        first = max(start, header.base_offset)
        if runs and runs[-1][0] == header.leader_epoch and runs[-1][2] + 1 == first:
            runs[-1] = (runs[-1][0], runs[-1][1], header.last_offset)
        else:
            runs.append((header.leader_epoch, first, header.last_offset))
    return runs


def show_runs(runs: Iterable[tuple[int, int, int]]) -> str:
    return " ".join(f"{epoch}:{first}-{last}" for epoch, first, last in runs) or NOTHING


def show_answer(answer: FetchAnswer) -> str:
    """The error, where the logs diverge, or the records and the high watermark."""
    if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return f"OFFSET_OUT_OF_RANGE, the log is {answer.log_start_offset} to {answer.log_end_offset}"
    if answer.error is not ErrorCode.NONE:
        return answer.error.name
    if answer.diverging is not None:
        return f"diverging ({answer.diverging.epoch},{answer.diverging.end_offset})"
    return f"{show_runs(runs_of(answer.records))} hw {answer.high_watermark}"
