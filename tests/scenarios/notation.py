"""Logs, caches, partitions and answers in text: `1:0-9 3:10-19 (6@20) hw 15`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replog.errors import ErrorCode
from replog.log.epochs import EpochEntry
from replog.log.fetch import FetchAnswer, FetchPartition
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import Buffer
from replog.metadata.values import NO_LEADER, PartitionState
from replog.topic import TopicPartition
from tests.leader.replicas import bytes_of, log_of
from tests.scenarios.language import ScenarioError

NOTHING = "∅"
TOPIC = "t"
TOPIC_ID = bytes(16)
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


def partition_of(letter: str) -> TopicPartition:
    return TopicPartition(TOPIC, ord(letter) - ord("a") + 1 if letter else 0)


def named(name: str, tp: TopicPartition) -> str:
    """`1`, `controller`, and with a letter for a partition that has one: `1a`, `controller a`."""
    letter = chr(ord("a") + tp.partition - 1) if tp.partition else ""
    return f"{name} {letter}".rstrip() if name == "controller" else name + letter


def show_fetch(request: FetchPartition, tp: TopicPartition | None = None, partitions: int = 1) -> str:
    """`fetch(26, 4)`: offset and last fetched epoch; before it the partition's letter where there are several."""
    epoch = "" if request.last_fetched_epoch is None else f", {request.last_fetched_epoch}"
    prefix = f"{named('', tp)} " if tp is not None and partitions > 1 else ""
    return f"{prefix}fetch({request.fetch_offset}{epoch})"


def show_set(members: Iterable[int]) -> str:
    return " ".join(str(member) for member in sorted(members)) or NOTHING


_FIELDS = ["replicas", "isr", "leader", "epoch", "p", "elr", "last-known", "had-all"]
_FIELDS += ["adding", "removing", "recovering", "throttle"]


def parse_partition(text: str, old: PartitionState | None = None, hosts: tuple[int, ...] = ()) -> PartitionState:
    """What `show_partition` shows; what is not said is as it was in `old`, or as it is at the beginning on `hosts`."""
    fields: dict[str, list[str]] = {}
    for word in text.split():
        if word in _FIELDS:
            values = fields[word] = []
        elif not fields or not re.fullmatch(r"\d+|none|∅", word):
            raise ScenarioError(f"{word!r} is nothing a partition has; fields are {', '.join(_FIELDS)}")
        else:
            values.append(word)

    def ids(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(word) for word in fields[name] if word != NOTHING) if name in fields else default

    def one(name: str, default: int) -> int:
        return NO_LEADER if fields.get(name) == ["none"] else int(fields[name][0]) if name in fields else default

    replicas = ids("replicas", old.replicas if old else hosts)
    return PartitionState(
        replicas=replicas,
        isr=ids("isr", old.isr if old else replicas),
        leader=one("leader", old.leader if old else replicas[0]),
        leader_epoch=one("epoch", old.leader_epoch if old else 0),
        partition_epoch=one("p", old.partition_epoch + 1 if old else 0),
        elr=ids("elr", ()),
        last_known_leader=one("last-known", NO_LEADER),
        recovering="recovering" in fields,
        adding=ids("adding", ()),
        removing=ids("removing", ()),
        throttle=one("throttle", 0),
        last_known_elr=ids("had-all", ()),
    )


def show_partition(state: PartitionState) -> str:
    """The controller's record, as a scenario writes it."""
    leader = "none" if state.leader == NO_LEADER else state.leader
    shown = f"replicas {' '.join(map(str, state.replicas))} isr {show_set(state.isr)} leader {leader}"
    shown += f" epoch {state.leader_epoch} p {state.partition_epoch}"
    for name in ("elr", "adding", "removing"):
        if members := getattr(state, name, ()):
            shown += f" {name} {show_set(members)}"
    if state.last_known_elr:
        shown += f" had-all {show_set(state.last_known_elr)}"
    if state.last_known_leader != NO_LEADER:
        shown += f" last-known {state.last_known_leader}"
    if state.throttle:
        shown += f" throttle {state.throttle}"
    return shown + (" recovering" if state.recovering else "")
