"""The small models can fail: they find protocols that are wrong on purpose, without any seed."""

import pytest

from tests.replog.models.explore import explore
from tests.replog.models.models import MODELS
from tests.replog.simulator.variants import VARIANTS

FOUND_IN = {
    "truncate-to-hw": "committed",
    "kip-101-only": "diverged",
    "no-leader-epoch-fencing": "returned",
    "no-epoch-validation": "diverged",
    "hw-of-diverging-answer-kept": "diverged",
    "pushed-before-validation": "pushes",
    "old-answers-are-appended": "slow",
    "hw-from-committed-isr": "lagging",
    "hw-without-laggards": "lagging",
    "hw-below-min-isr": "without-elr",
    "delayed-produce-without-epoch": "returned",
    "ack-before-append": "elections",
    "expand-below-epoch-start": "dropped",
    "expand-at-once": "dropped",
    "reset-on-equal-record": "dropped",
    "revert-on-invalid-update-version": "proposals",
    "zombie-fetches-count": "crashes",
    "unheard-epochs-count": "crashes",
    "no-epoch-start": "elections",
    "end-offset-goes-back": "committed",
    "all-minimums-ignored": "without-elr",
    "consumers-read-uncommitted": "elections",
    "uncommitted-end-offset": "elections",
    "empty-disk-stays-eligible": "one-left",
    "last-leader-by-guess": "last-dead",
    "nobody-is-waited-for": "last-dead",
    "longest-whatever-its-epoch": "outrun",
    "resigns-and-goes-on-alone": "resigning",
    "any-incarnation-joins": "dropped",
    "isr-by-membership": "proposals",
    "overtaken-proposals-count": "overtaken",
    "unclean-restart-stays-eligible": "one-left",
    "anyone-leads": "one-left",
    "leader-epoch-not-raised": "elections",
    "fenced-from-one-base": "one-left",
    "fenced-stay-in-isr": "elections",
    "stale-epochs-believed": "crashes",
    "epochs-lost-at-load": "crashes",
}
_NOT_REACHED = "a model can express it, and none has found it in its nearest 8,000 states"
_WAITS = "somebody waits for ever, and no state is wrong (INV-19, INV-21, live)"
_LOG_START = "every log begins at 0"
_LOADING = "a start opens the log itself, without its directory's marker and checkpoints"
_FLUSHED = "flush.messages=1 is not set"
_STORE = "what is decided is stored at once, by one controller"
NOT_FOUND = {
    "no-partition-epoch-check": _NOT_REACHED,
    "trailing-epoch-kept": _NOT_REACHED,
    "missed-epoch-unnoticed": _NOT_REACHED,
    "old-offsets-after-election": _NOT_REACHED,
    "divergence-below-log-start-taken": _LOG_START,
    "hw-kept-by-full-truncation": _LOG_START,
    "any-clock-deletes": _LOG_START,
    "purgatory-not-told-of-lost-leadership": _WAITS,
    "produce-not-told-of-high-watermark": _WAITS,
    "consumer-on-follower-not-woken": _WAITS,
    "nobody-resigns": _WAITS,
    "silence-is-no-death": _WAITS,
    "proposal-replaces-one-in-flight": _WAITS,
    "partition-epoch-forgotten-for-good": _WAITS,
    "leader-misses-isr-changes": _WAITS,
    "stale-brokers-are-heard": _WAITS,
    "remembered-whatever-they-lost": "one replica loses something, and another one that had everything has it still",
    "reassigned-replica-stays-in-isr": "no partition moves",
    "missed-deletion-unnoticed": "no topic is deleted",
    "stored-settings-must-be-known": "no setting changes",
    "announced-before-stored": _STORE,
    "controller-behind-obeyed": _STORE,
    "restored-by-who-is-there": _STORE,
    "restored-as-if-never-compacted": _STORE,
    "commits-without-leading": _STORE,
    "believes-past-its-lease": _STORE,
    "stays-with-other-metadata": _STORE,
    "no-recovery": _LOADING,
    "marker-left-behind": _LOADING,
    "cut-to-lost-high-watermark": _LOADING,
    "unflushed-fetch-counts": _FLUSHED,
    "late-flush-timer": _FLUSHED,
    "flush-messages-ignored": _FLUSHED,
    "producers-forgotten": "no producer sends a batch again",
    "retries-renumbered": "no producer sends a batch again",
    "lost-fetches-stay-lost": "no client's stream is lost",
    "latest-of-key-goes": "nothing is compacted",
    "tombstones-go-at-once": "nothing is compacted",
    "aborted-shown": "there are no transactions",
    "open-transactions-forgotten": "there are no transactions",
}


@pytest.mark.parametrize("name", FOUND_IN)
def test_a_wrong_protocol_is_found_by_a_shortest_way(name):
    with VARIANTS[name].applied():
        done = explore(MODELS[FOUND_IN[name]], most=10_000)
    assert done.violation is not None, f"{name} breaks nothing in {FOUND_IN[name]}: {done}"
    assert done.violation.invariant != "defect", done.story
    print(f"{name}: {len(done.trace)} steps, {done}\n{done.story}")


def test_every_wrong_protocol_is_found_or_there_is_a_reason_why_not():
    assert {*FOUND_IN, *NOT_FOUND} == {*VARIANTS}
    assert FOUND_IN.keys().isdisjoint(NOT_FOUND)
