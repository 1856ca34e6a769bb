"""What events make of one partition, told in rows of text, as scenarios write partitions:

    isr 11 elr 12 | 11 leaves | active 13 | isr ∅ leader none epoch 6 p 10 elr 11 12 last-known 11

before, event, situation, after. Unless it says otherwise a partition has replicas 11, 12 and 13, all in sync, led by 11
in epoch 5 at partition epoch 9, and `moving` is one on its way to 12, 13 and 14; the brokers 11 to 15 are active, and
two in sync are enough. No state before: what the row above left; `"`: what it began with. `same` is the very same
object. What is indented goes on with its row.

Of an election by evidence the situation says how far logs go, as `11 has 5:100` (epoch and end; -1:0 is an empty one),
that the wait is over (`waited`), and whose brokers never say anything (`mute 11`)."""

import re

import pytest

from replog.controller import reassignments
from replog.controller.elections import (
    Election,
    Leaves,
    Situation,
    Strategy,
    change_isr,
    elect,
    in_order,
    remove_from_isr,
)
from replog.controller.evidence import Answers, leader_by_evidence, leader_on_request
from replog.errors import ReplogError
from replog.metadata.log_ends import LogEnd
from tests.scenarios.notation import parse_partition, partition_of, show_partition

BEFORE = "replicas 11 12 13 leader 11 epoch 5 p 9 "
MOVING = "replicas 12 13 14 11 isr 12 13 11 epoch 5 p 10 adding 14 removing 11"


def table(text):
    """A test's parameters: of each paragraph, which begins with its title, the rows."""
    cases = (paragraph.replace("\n  ", " ").strip().split("\n") for paragraph in re.split(r"\n\n+", text.strip()))
    return pytest.mark.parametrize("rows", [pytest.param(rows, id=title) for title, *rows in cases])


def check(rows):
    before = left = None
    for row in rows:
        start, event, circumstances, expected = (column.strip() for column in row.split("|"))
        if start == "":
            before = left
        elif start != '"':
            before = parse_partition(BEFORE + re.sub(r"\bmoving\b", MOVING, start))
        try:
            left = perform(event, before, situation(circumstances), answers(circumstances), "waited" in circumstances)
        except ReplogError as refused:
            left, seen = before, refused.code.name
        else:
            seen = "same" if left is before else shown(left)
            assert (left.isr, left.elr) == (in_order(left.replicas, left.isr), in_order(left.replicas, left.elr)), row
        assert seen == expected, row


def shown(state):
    return re.sub("^replicas 11 12 13 (?=isr)", "", show_partition(state))


def situation(text):
    active, minimum = re.search(r"active ([\d ]+|none)", text), re.search(r"min (\d+)", text)
    return Situation(
        frozenset(map(int, re.findall(r"\d+", active[1])) if active else range(11, 16)),
        int(minimum[1]) if minimum else 2,
        eligible_leader_replicas="no elr" not in text,
        strategy=Strategy((re.findall(r"AGGRESSIVE|NONE", text) or ["BALANCED"])[0]),
    )


def answers(text):
    said = {int(b): LogEnd(int(e), int(o)) for b, e, o in re.findall(r"(\d+) has (-?\d+):(\d+)", text)}
    mute = re.search(r"mute ([\d ]+)", text)
    return Answers(said, 0 if said else None, frozenset(map(int, mute[1].split()) if mute else ()))


def perform(event, state, now, answers, waited):
    brokers = tuple(map(int, re.findall(r"\d+", event)))
    match re.sub(r"[\d ]+", " ", event).strip():
        case "leaves":
            return remove_from_isr(state, *brokers, now)
        case "leaves uncleanly":
            return remove_from_isr(state, *brokers, now, Leaves.UNCLEANLY)
        case "goes offline":
            return remove_from_isr(state, *brokers, now, Leaves.OFFLINE)
        case "comes back empty":
            return remove_from_isr(state, *brokers, now, Leaves.EMPTY)
        case "isr":
            return change_isr(state, brokers, now)
        case "elect":
            return elect(state, now, by_evidence=leader_by_evidence(state, now, answers, 1000 * waited, 1000))
        case "elect preferred":
            return elect(state, now, Election.PREFERRED)
        case "elect unclean":
            return elect(state, now, Election.UNCLEAN, leader_on_request(state, now, answers))
        case "reassign to":
            return reassignments.start(state, brokers, now)
        case "reassign to at":
            return reassignments.start(state, brokers[:-1], now, brokers[-1])
        case "cancel":
            return reassignments.cancel(partition_of(""), state, now)
        case other:
            raise ValueError(other)
