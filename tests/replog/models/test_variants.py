"""Whatever the order of steps in the small models, the simulator's invariants hold. And they can fail: they find
protocols that are wrong on purpose, without any seed."""

import pytest

from tests.replog.models.deciding import BROKERS
from tests.replog.models.explore import explore, made
from tests.replog.models.models import COMMITTED, MODELS, SmallModel
from tests.replog.models.moment import Bounds
from tests.replog.simulator.variants import VARIANTS

FOUND_BY_MODEL = {
    "committed": "truncate-to-hw end-offset-goes-back",
    "diverged": "kip-101-only no-epoch-validation hw-of-diverging-answer-kept",
    "returned": "no-leader-epoch-fencing delayed-produce-without-epoch",
    "pushes": "pushed-before-validation",
    "slow": "old-answers-are-appended",
    "lagging": "hw-from-committed-isr hw-without-laggards",
    "without-elr": "hw-below-min-isr all-minimums-ignored",
    "elections": (
        "ack-before-append no-epoch-start consumers-read-uncommitted uncommitted-end-offset "
        "leader-epoch-not-raised fenced-stay-in-isr"
    ),
    "dropped": "expand-below-epoch-start expand-at-once reset-on-equal-record any-incarnation-joins",
    "proposals": "revert-on-invalid-update-version isr-by-membership",
    "crashes": "zombie-fetches-count unheard-epochs-count stale-epochs-believed epochs-lost-at-load",
    "unheard": "no-partition-epoch-check",
    "passed-over": "missed-epoch-unnoticed old-offsets-after-election",
    "forgotten": "remembered-whatever-they-lost",
    "one-left": "empty-disk-stays-eligible unclean-restart-stays-eligible anyone-leads fenced-from-one-base",
    "last-dead": "last-leader-by-guess nobody-is-waited-for",
    "outrun": "longest-whatever-its-epoch",
    "deleting": "hw-kept-by-full-truncation",
    "retained": "deleted-goes-behind-what-is-left",
    "resigning": "resigns-and-goes-on-alone",
    "overtaken": "overtaken-proposals-count",
}
WAIT_IN_MODEL = {  # no state is wrong, and somebody waits for ever
    "elections": (
        "purgatory-not-told-of-lost-leadership produce-not-told-of-high-watermark leader-misses-isr-changes "
        "partition-epoch-forgotten-for-good"
    ),
    "passed-over": "trailing-epoch-kept",
    "proposals": "proposal-replaces-one-in-flight",
}
WAIT_IN = {name: model for model, names in WAIT_IN_MODEL.items() for name in names.split()}
FOUND_IN = {name: model for model, names in FOUND_BY_MODEL.items() for name in names.split()} | WAIT_IN
WHY_NOT = {
    "nothing is written after a deletion": "divergence-below-log-start-taken",
    "no clock is wrong": "any-clock-deletes",
    "no consumer waits": "consumer-on-follower-not-woken",
    "who is dead or unheard comes back": "nobody-resigns silence-is-no-death",
    "a broker's registration is a step of the model's own": "stale-brokers-are-heard",
    "no more than one disk is lost": "missing-counts-as-empty",
    "no partition moves": "reassigned-replica-stays-in-isr",
    "no topic is deleted": "missed-deletion-unnoticed",
    "no setting changes": "stored-settings-must-be-known",
    "what is decided is stored at once, by one controller": (
        "announced-before-stored controller-behind-obeyed restored-by-who-is-there restored-as-if-never-compacted "
        "commits-without-leading believes-past-its-lease stays-with-other-metadata"
    ),
    "a start opens the log itself, without its directory's marker and checkpoints": (
        "no-recovery marker-left-behind cut-to-lost-high-watermark"
    ),
    "flush.messages=1 is not set": "unflushed-fetch-counts late-flush-timer flush-messages-ignored",
    "no producer sends a batch again": "producers-forgotten retries-renumbered",
    "no client's stream is lost": "lost-fetches-stay-lost",
    "nothing is compacted": "latest-of-key-goes tombstones-go-at-once",
    "there are no transactions": "aborted-shown open-transactions-forgotten",
    "no client speaks Kafka's protocol": "kafka-acks-of-one kafka-session-keeps-offsets",
}
NOT_FOUND = {name: why for why, names in WHY_NOT.items() for name in names.split()}


@pytest.mark.parametrize("name", FOUND_IN)
def test_a_wrong_protocol_is_found_by_a_shortest_way(name):
    with VARIANTS[name].applied():
        done = explore(MODELS[FOUND_IN[name]], most=10_000, rests=name in WAIT_IN)
    assert done.violation is not None, f"{name} breaks nothing in {FOUND_IN[name]}: {done}"
    assert (done.violation.invariant == "INV-21") == (name in WAIT_IN), done.story
    assert done.violation.invariant != "defect", done.story
    print(f"{name}: {len(done.trace)} steps, {done}\n{done.story}")


def test_every_wrong_protocol_is_found_or_there_is_a_reason_why_not():
    assert {*FOUND_IN, *NOT_FOUND} == {*VARIANTS}
    assert FOUND_IN.keys().isdisjoint(NOT_FOUND)


NEAREST = 5_000  # states of each; `make models` goes on


@pytest.mark.parametrize("name", MODELS)
def test_no_order_of_steps_breaks_an_invariant(name):
    done = explore(MODELS[name], most=NEAREST)
    print(f"{name}: {done}")
    assert done.violation is None, done.story


def test_a_record_is_committed_once_all_have_fetched_it_and_the_next_fetch_tells_them():
    """The model moves as a cluster does; else it would keep every invariant. No beginning has a step that cannot be."""
    known = (*COMMITTED, ("fetch", 2), ("fetch", 3))
    with made(SmallModel(Bounds(), known)) as model:
        assert [model.view(model.root, b).seen.high_watermark for b in BROKERS] == [1, 1, 1]
    then = (("expire", (1,)), ("hear", 2), ("hear", 3), ("fetch", 3), ("append", 2), ("fetch", 3))
    with made(SmallModel(Bounds(), known + then)) as model:
        assert str(model.view(model.root, 3).seen.chain) == "0:0-0 1:1-1"


def test_the_same_state_is_the_same_whatever_the_way():
    with made(MODELS["elections"]) as model:
        one = model.do(model.do(model.do(model.root, ("append", 1)), ("fetch", 2)), ("fetch", 3))
        assert one == model.do(model.do(model.do(model.root, ("append", 1)), ("fetch", 3)), ("fetch", 2))
