"""Elections on request and of the controller's own accord: CT-11, CT-12."""

from replog.controller import cluster_state
from replog.controller.broker_lifecycle import Heartbeat
from replog.controller.decision import numbered
from replog.controller.elections import Election
from replog.controller.evidence import LogEnd, Report
from replog.errors import ErrorCode
from replog.topic import TopicPartition

T = TopicPartition("t", 0)


def ask(cluster, election, *partitions):
    results = cluster.do(cluster.state.elect_leaders(election, partitions or [T]))
    return [(result.error.code.name, result.leader) for result in results]


def test_ct_11_an_unclean_election_is_held_only_where_there_is_no_leader(three):
    assert ask(three, Election.UNCLEAN) == [("ELECTION_NOT_NEEDED", 11)]
    three.expire(13)
    three.expire(12)
    three.expire(11)
    assert three.partition().elr == (11, 12)
    assert ask(three, Election.UNCLEAN) == [("ELIGIBLE_LEADERS_NOT_AVAILABLE", -1)]
    three.come_back(13, clean=True)
    assert three.partition().leader == -1, "13 may miss committed records, and nobody has allowed that"
    assert ask(three, Election.UNCLEAN) == [("NONE", 13)]
    state = three.partition()
    assert (state.leader, state.isr, state.elr, state.recovering) == (13, (13,), (), True)
    assert three.alter(13, three.item([11, 13]))[0].error is ErrorCode.INELIGIBLE_REPLICA
    three.come_back(11, clean=True)
    assert three.alter(13, three.item([11, 13]))[0].error is ErrorCode.NONE
    assert not three.partition().recovering, "ST-15"


def test_ct_11_partitions_are_judged_one_by_one_and_answered_in_order(three):
    three.assigned("u", [12, 13], [13, 11])
    three.expire(12)
    three.come_back(12, clean=True)
    three.alter(13, three.item([12, 13], topic="u"))
    unknown, gone = TopicPartition("u", 7), TopicPartition("nope", 0)
    u = TopicPartition("u", 0)
    assert ask(three, Election.PREFERRED, unknown, u, T, gone, u) == [
        ("UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("NONE", 12),
        ("ELECTION_NOT_NEEDED", 11),
        ("UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("ELECTION_NOT_NEEDED", 12),
    ]
    assert three.partition("u").partition_epoch == 3, "the second time there was nothing to elect"


def test_every_refusal_names_the_partition_and_the_reason(three):
    three.expire(11)
    (result,) = three.do(three.state.elect_leaders(Election.PREFERRED, [T]))
    assert "t-0" in result.error.message
    assert "11" in result.error.message
    (result,) = three.do(three.state.elect_leaders(Election.PREFERRED, [TopicPartition("x" * 100_000, 0)]))
    assert len(result.error.message) < 400


def test_ct_30_who_is_not_there_is_waited_for_one_session_where_recovery_is_aggressive(make_cluster):
    """CT-12, CT-31."""
    bold = make_cluster(unclean_recovery_strategy="AGGRESSIVE").start(11, 12, 13)
    bold.assigned("t", [11, 12, 13])
    bold.alter(11, bold.item([11, 12]))
    bold.expire(12)
    bold.expire(11)
    bold.recover()
    assert bold.partition().leader == -1, "11 and 12 may come back"
    bold.now_ms += 8999
    bold.recover()
    assert bold.partition().leader == -1
    bold.now_ms += 1
    bold.recover()
    assert (bold.partition().leader, bold.partition().recovering) == (13, True)


def all_were_killed(cluster):
    """13 and then 12 and 11 stop; they come back after an unclean stop, one after the other."""
    for broker in (13, 12, 11):
        cluster.expire(broker)
    cluster.log_ends = {11: LogEnd(0, 90), 12: LogEnd(0, 100), 13: LogEnd(0, 80)}
    for broker in (11, 13):
        cluster.come_back(broker, clean=False)
        cluster.recover()
    assert cluster.partition().leader == -1, "12 is eligible"
    cluster.come_back(12, clean=False)
    assert (cluster.partition().isr, cluster.partition().elr) == ((), ())


def test_ct_29_what_a_process_said_counts_no_longer_than_it_lives(three):
    """CT-30: 12 is killed again before anybody leads, and this time loses its tail."""
    all_were_killed(three)
    three.heartbeat(12)
    three.now_ms += 9000
    three.heartbeat(11)
    three.heartbeat(13)
    three.register(12, previous=-1)
    three.do(three.state.recover(three.now_ms))
    three.do(three.state.heartbeat(Heartbeat(three.claim(12), three.image.version, log_ends=()), three.now_ms))
    assert three.image.brokers[12].active
    three.do(three.state.recover(three.now_ms))
    assert three.partition().leader == -1, "12 has not said how far it goes now"
    three.log_ends[12] = LogEnd(0, 70)
    three.heartbeat(12)
    three.recover()
    assert three.partition().leader == 11


def test_ct_29_another_topic_of_the_name_and_an_older_epoch_are_no_evidence(three):
    """CT-30."""
    all_were_killed(three)
    state = three.partition()
    stranger = Report(b"another topic id", 0, state.leader_epoch, LogEnd(9, 900))
    older = Report(three.image.topics["t"].topic_id, 0, state.leader_epoch - 1, LogEnd(9, 900))
    before = three.state.log_ends(T)
    for report in (stranger, older, older._replace(partition=7)):
        request = Heartbeat(three.claim(11), three.image.version, log_ends=(report,))
        three.do(three.state.heartbeat(request, three.now_ms))
    assert three.state.log_ends(T) == before


def test_brokers_of_release_0_1_0_say_nothing_and_the_last_leader_leads_as_it_did(three):
    """A broker that was not upgraded yet cannot be asked."""
    three.log_ends = dict.fromkeys((11, 12, 13))
    for broker in (13, 12, 11):
        three.expire(broker)
    for broker in (13, 12, 11):
        three.log_ends[broker] = None
        three.come_back(broker, clean=False)
    three.recover()
    assert (three.partition().leader, three.partition().recovering) == (11, True)


def test_a_broker_that_is_upgraded_says_how_far_it_goes_and_is_waited_for_again(three):
    all_were_killed(three)
    for log_end in (None, LogEnd(0, 100)):
        three.log_ends[12] = log_end
        three.heartbeat(12)
        assert three.state.log_ends(T).mute == ({12} if log_end is None else frozenset())
    three.recover()
    assert three.partition().leader == 12, "and not 11 by a guess"


def test_the_controllers_own_elections_are_bounded(three, monkeypatch):
    monkeypatch.setattr(cluster_state, "ELECTIONS_AT_ONCE", 2)
    three.assigned("u", *[[11, 12, 13]] * 5)
    three.expire(11)
    three.come_back(11, clean=True)
    for partition in range(5):
        assert three.alter(12, three.item([11, 12, 13], topic="u", partition=partition))[0].error is ErrorCode.NONE
    moved = [three.do(three.state.rebalance_leaders()) for _ in range(4)]
    assert moved == [2, 2, 1, 0]
    assert [three.partition("u", p).leader for p in range(5)] == [11] * 5


def test_which_records_are_unclean_elections_can_be_told_before_they_are_applied(three):
    three.alter(11, three.item([11, 12]))
    three.expire(12)
    three.expire(11)
    three.heartbeat(13)
    decision = three.state.elect_leaders(Election.UNCLEAN, [T])
    changes = [change for change in numbered(decision.changes, three.image.version) if change is not None]
    assert three.state.unclean_elections(changes) == [(T, 13)]
    three.apply(changes)
    three.come_back(11, clean=True)
    decision = three.state.fence_next_expired(three.now_ms + 9000)
    changes = [change for change in numbered(decision.changes, three.image.version) if change is not None]
    assert changes
    assert three.state.unclean_elections(changes) == [], "13 leads no more: no election"
