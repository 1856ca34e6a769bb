"""Who leads, and what every event does to the in-sync set, the eligible replicas and the epochs; elections on request
and of the controller's own accord: CT-11, CT-12."""

from replog.controller import cluster_state
from replog.controller.broker_lifecycle import Heartbeat
from replog.controller.decision import numbered
from replog.controller.elections import Election, Situation, change_isr
from replog.controller.evidence import Report
from replog.errors import ErrorCode
from replog.metadata.log_ends import LogEnd
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition
from tests.replog.controller.partition_tables import check, table


@table("""
R-W-C6, CT-8: on request an unclean election needs no permission
isr 11 | 11 leaves | active 12 13, no elr | isr 11 leader none epoch 6 p 10 last-known 11
| elect unclean | active 12 13, no elr, 12 has 5:10 13 has 5:9 | isr 12 leader 12 epoch 7 p 11 recovering

ISR-17, CT-30: when every copy stopped uncleanly they say how far they go, and nobody leads by a guess
isr 11 elr 12 | 11 leaves | active 13 | isr ∅ leader none epoch 6 p 10 elr 11 12 last-known 11
| 12 leaves uncleanly | active 13, 13 has 5:80 | isr ∅ leader none epoch 6 p 11 elr 11 had-all 12 last-known 11
| elect | active 12 13, 12 has 5:90 13 has 5:80 11 has 5:90 | same
| 11 leaves uncleanly | active 12 13 | isr ∅ leader none epoch 6 p 12 had-all 11 12 last-known 11
| elect | active 11 12 13, 11 has 5:90 | same
" | elect | active 11 12 13, waited, 11 has 5:90 13 has 5:100 | same
| elect | active 11 12 13, 11 has 5:90 12 has 5:100 | isr 12 leader 12 epoch 7 p 13 recovering

CT-30: who had everything comes before a newer epoch: its leader committed nothing in it, or they would know it
isr ∅ leader none had-all 11 12 | elect | 11 has 9:80 12 has 9:79 13 has 10:72 |
  isr 11 leader 11 epoch 6 p 10 recovering
" | elect unclean | active 12 13, 12 has 9:79 13 has 10:72 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect unclean | active 13, 13 has 10:72 | isr 13 leader 13 epoch 6 p 10 recovering

CT-30: but not before one with a longer log and no older epoch: the one that had everything alone lost its power
isr ∅ leader none had-all 11 | elect | 11 has -1:5 12 has 7:14 13 has 7:12 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect | 11 has 7:9 12 has 7:14 13 has 8:5 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect | 11 has 8:9 12 has 7:14 13 has 7:14 | isr 11 leader 11 epoch 6 p 10 recovering

CT-30: where too few of those are left, as one came back empty, all replicas are waited for
isr ∅ leader none had-all 11 12 | 11 comes back empty | | isr ∅ leader none epoch 5 p 10 had-all 12
| elect | 12 has 9:79 11 has -1:0 | same
| elect | 12 has 9:79 11 has -1:0 13 has 10:72 | isr 12 leader 12 epoch 6 p 11 recovering
| isr 12 13 | | isr 12 13 leader 12 epoch 6 p 12 recovering

CT-30: once enough are in sync again nobody is remembered: he lacks what is committed from then on
isr 11 had-all 12 | isr 11 13 | | isr 11 13 leader 11 epoch 5 p 10
isr 11 elr 12 had-all 13 | 11 leaves uncleanly | active none |
  isr ∅ leader none epoch 6 p 10 elr 12 had-all 11 13 last-known 11
| elect | active 12 | isr 12 leader 12 epoch 7 p 11 had-all 11 13

CT-30: the newest epoch counts before the longest log, then the order; who is being added comes last
isr ∅ leader none | elect | 11 has 4:200 12 has 5:100 13 has 5:99 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect | 11 has -1:0 12 has 5:100 13 has 5:100 | isr 12 leader 12 epoch 6 p 10 recovering
isr ∅ leader none adding 11 | elect | 11 has 5:9 12 has 5:9 13 has 5:8 |
  isr 12 leader 12 epoch 6 p 10 adding 11 recovering

CT-30: whose records retention deleted goes before a log that ends earlier, which would use offsets again
isr ∅ leader none | elect | 11 has 5:8 12 has -1:9 13 has -1:0 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect | 11 has 5:9 12 has -1:9 13 has -1:0 | isr 11 leader 11 epoch 6 p 10 recovering
" | elect | 11 has -2:0 12 has -1:9 13 has 5:8 | isr 12 leader 12 epoch 6 p 10 recovering
isr ∅ leader none had-all 11 | elect | 11 has 5:8 12 has 5:9 13 has -1:10 | isr 13 leader 13 epoch 6 p 10 recovering

CT-30: an empty replica leads if all are empty: the topic never had a record
isr ∅ leader none | elect | 11 has -1:0 12 has -1:0 13 has -1:0 | isr 11 leader 11 epoch 6 p 10 recovering
" | elect | 11 has -1:0 12 has -1:0 | same

CT-30: as many missing replicas as had each committed record may be all that had it: disks that are not mounted
isr ∅ leader none | elect | 11 has -2:0 12 has -2:0 13 has -2:0 | same
" | elect | 11 has -2:0 12 has -2:0 13 has 5:9 | same
" | elect | 11 has -2:0 12 has 5:8 13 has 5:9 | isr 13 leader 13 epoch 6 p 10 recovering
" | elect | min 3, 11 has -2:0 12 has -2:0 13 has 5:9 | isr 13 leader 13 epoch 6 p 10 recovering
" | elect | AGGRESSIVE, 11 has -2:0 12 has -2:0 13 has -2:0 | same
" | elect | AGGRESSIVE, waited, 11 has -2:0 12 has -2:0 13 has -2:0 | isr 11 leader 11 epoch 6 p 10 recovering
" | elect unclean | 11 has -2:0 12 has -2:0 13 has -1:0 | isr 13 leader 13 epoch 6 p 10 recovering
" | elect unclean | 11 has -2:0 12 has -2:0 13 has -2:0 | isr 11 leader 11 epoch 6 p 10 recovering

CT-30: where one is missing, one that is empty may be a copy that was begun
isr ∅ leader none | elect | 11 has -2:0 12 has -1:0 13 has -1:0 | same
" | elect | 11 has -2:0 12 has -1:0 13 has 5:9 | same
isr ∅ leader none had-all 12 | elect | 11 has -2:0 12 has -1:0 13 has -1:0 | isr 12 leader 12 epoch 6 p 10 recovering

CT-30: where one in sync is enough, one missing replica counts as empty if another has records
isr ∅ leader none | elect | min 1, 11 has -2:0 12 has -1:0 13 has -1:0 | same
" | elect | min 1, 11 has -2:0 12 has -2:0 13 has 5:9 | same
" | elect | min 1, 11 has -2:0 12 has 4:0 13 has 5:9 | isr 13 leader 13 epoch 6 p 10 recovering
replicas 11 isr ∅ leader none | elect | 11 has -2:0 | same
replicas 11 12 isr ∅ leader none adding 12 | elect | 11 has 5:9 12 has -2:0 |
  replicas 11 12 isr 11 leader 11 epoch 6 p 10 adding 12 recovering

CT-30: who has gone again after its answer is waited for, unless somebody has as much
isr ∅ leader none | elect | active 11 12, 11 has 5:9 12 has 5:8 13 has 5:10 | same
" | elect | active 11 12, 11 has 5:9 12 has 5:10 13 has 5:10 | isr 12 leader 12 epoch 6 p 10 recovering

CT-31: AGGRESSIVE waits for a while, and for who is eligible too; NONE for an administrator
isr ∅ leader none elr 13 | elect | active 11 12, AGGRESSIVE, 11 has 5:9 12 has 5:10 | same
" | elect | active 11 12, AGGRESSIVE, 11 has 5:9 12 has 5:10, waited | isr 12 leader 12 epoch 6 p 10 recovering
" | elect | active 11 12, AGGRESSIVE, 11 has 5:9 12 has 5:10 13 has 5:10 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect | active 11 12, 11 has 5:9 12 has 5:10 13 has 5:10, waited | same
isr ∅ leader none | elect | NONE, 11 has 5:9 12 has 5:9 13 has 5:9, waited | same
" | elect unclean | NONE, 11 has 5:9 12 has 5:10 | isr 12 leader 12 epoch 6 p 10 recovering

CT-27: whose files fail is in sync and eligible no more, but had everything: its word is enough once they are mended
isr 11 | 11 goes offline | min 1 | isr ∅ leader none epoch 6 p 10 had-all 11
| elect | min 1, waited | same
| elect | min 1, 11 has 5:9 | isr 11 leader 11 epoch 7 p 11 recovering
isr 11 elr 12 13 | 11 goes offline | active 11 13 | isr 13 leader 13 epoch 6 p 10 elr 12 had-all 11
isr 11 | 11 goes offline | no elr | isr ∅ leader none epoch 6 p 10 had-all 11
| 11 comes back empty | no elr | isr ∅ leader none epoch 6 p 11

CT-30: who is only being added may never have had anything, and is not waited for
replicas 12 11 isr 11 adding 12 removing 11 | 11 goes offline | |
  replicas 12 11 isr ∅ leader none epoch 6 p 10 adding 12 removing 11 had-all 11
| elect | active 11, 11 has 5:9 |
  replicas 12 11 isr 11 leader 11 epoch 7 p 11 adding 12 removing 11 recovering
replicas 12 11 isr 11 adding 12 removing 11 | 11 leaves uncleanly | active 12 |
  replicas 12 11 isr ∅ leader none epoch 6 p 10 adding 12 removing 11 had-all 11 last-known 11
| elect | active 12, 12 has 5:9 | same
| elect | active 11, 11 has 5:9 |
  replicas 12 11 isr 11 leader 11 epoch 7 p 11 adding 12 removing 11 recovering

CT-29: whose disk is empty is in sync, eligible and last leader no more, whether there is an ELR or not
isr 11 12 13 | 11 comes back empty | active 12 13 | isr 12 13 leader 12 epoch 6 p 10
isr 12 elr 11 leader 12 | 11 comes back empty | active 12 13 | isr 12 leader 12 epoch 5 p 10
isr ∅ leader none last-known 11 | 11 comes back empty | active 12 13 | isr ∅ leader none epoch 5 p 10
isr 11 leader none last-known 11 | 11 comes back empty | active 12 13, no elr | isr ∅ leader none epoch 5 p 10

While brokers of release 0.1.0 say nothing of their logs, who led last leads, or any where AGGRESSIVE allows it
isr ∅ leader none last-known 12 | elect | mute 13, 11 has 5:9 12 has 5:9 | isr 12 leader 12 epoch 6 p 10 recovering
isr ∅ leader none | elect | mute 13, 11 has 5:9 12 has 5:9 | same
" | elect | mute 13, AGGRESSIVE | isr 11 leader 11 epoch 6 p 10 recovering
" | elect unclean | active 13, mute 13 | isr 13 leader 13 epoch 6 p 10 recovering

ISR-17: the ISR comes before the ELR: 13 may have committed since 12 left
isr 13 leader none elr 12 last-known 13 | elect | active 11 12 | same
" | elect | active 12 13 | isr 13 leader 13 epoch 6 p 10 elr 12

ISR-16: a leader alone in the ISR that restarts uncleanly gives way to the eligible replica
isr 11 elr 12 | 11 leaves uncleanly | active 13 | isr ∅ leader none epoch 6 p 10 elr 12 had-all 11 last-known 11
| elect | active 11 12 13 | isr 12 leader 12 epoch 7 p 11 had-all 11
isr 11 elr 12 | 11 leaves uncleanly | active 12 13 | isr 12 leader 12 epoch 6 p 10 had-all 11

ISR-15: the ELR is cleared once the ISR reaches the minimum
isr 11 elr 12 | isr 11 13 | | isr 11 13 leader 11 epoch 5 p 10

ISR-15: an ISR of one meets a minimum of one, so 12 may commit alone, and 11 is eligible no more
isr ∅ leader none elr 11 12 last-known 11 | elect | active 12, min 1 | isr 12 leader 12 epoch 6 p 10

PR-2: the minimum is never more than the replicas; a single replica that stopped uncleanly leads again as unclean
replicas 11 | 11 leaves | active none | replicas 11 isr ∅ leader none epoch 6 p 10 elr 11 last-known 11
| elect | active 11 | replicas 11 isr 11 leader 11 epoch 7 p 11
replicas 11 | 11 leaves uncleanly | active none |
  replicas 11 isr ∅ leader none epoch 6 p 10 had-all 11 last-known 11
| elect | active 11, 11 has 5:9 | replicas 11 isr 11 leader 11 epoch 7 p 11 recovering

CT-8: an election keeps a valid leader and never an invalid one
leader 12 | elect | | same
" | elect | active 11 13 | isr 11 12 13 leader 11 epoch 6 p 10
" | elect | active none | isr 11 12 13 leader none epoch 6 p 10 last-known 12

CT-8: a preferred one falls back to the leader, and then to any valid replica
leader 13 | elect preferred | active 12 13 | same
" | elect preferred | active 12 | isr 11 12 13 leader 12 epoch 6 p 10

CT-9, CT-10: the leader epoch rises exactly when the leader is set
isr 11 12 13 | isr 11 | | isr 11 leader 11 epoch 5 p 10 elr 12 13
| isr 11 13 | | isr 11 13 leader 11 epoch 5 p 11
| 11 leaves | active 13 | isr 13 leader 13 epoch 6 p 12 elr 11
| 13 leaves | active none | isr ∅ leader none epoch 7 p 13 elr 11 13 last-known 13
| elect | active 13 | isr 13 leader 13 epoch 8 p 14 elr 11

An event that does not concern a partition leaves it untouched; fencing again does not end eligibility
isr 11 12 | 13 leaves | active 11 12 | same
" | 13 leaves uncleanly | active 11 12 | same
isr 11 elr 12 | 12 leaves | active 11 13 | same

CT-7: a leader is in sync, or eligible if nobody is in sync, and active
isr 12 13 leader none | elect | active 11 13 | isr 12 13 leader 13 epoch 6 p 10
isr ∅ leader none elr 12 13 last-known 11 | elect | active 11 13 | isr 13 leader 13 epoch 6 p 10 elr 12

CT-8: an unclean election is the last resort and makes its leader the whole ISR
isr ∅ leader none elr 13 last-known 11 | elect unclean | active 11 13, 11 has 5:9 | isr 13 leader 13 epoch 6 p 10
" | elect unclean | active 11 12, 11 has 5:9 12 has 5:10 | isr 12 leader 12 epoch 6 p 10 recovering
" | elect unclean | active 11 12 | same
" | elect unclean | active none | same

CT-8: a preferred election is never unclean
isr ∅ leader none elr 13 last-known 11 | elect preferred | active 11 12, AGGRESSIVE, 11 has 5:9 12 has 5:9 | same

CT-12, CT-31: an event alone elects nobody uncleanly
isr 11 | 11 leaves | active 12 13, no elr, AGGRESSIVE | isr 11 leader none epoch 6 p 10 last-known 11
| elect | active 12 13, no elr, AGGRESSIVE, waited, 12 has 5:9 13 has 5:10 | isr 13 leader 13 epoch 7 p 11 recovering
isr 11 12 | 11 leaves | active 12 13, AGGRESSIVE | isr 12 leader 12 epoch 6 p 10 elr 11

ISR-19: without ELR only the last member stays, and 11, not active, does not go on leading
isr 11 12 | 12 leaves | active 13, no elr | isr 11 leader none epoch 6 p 10 last-known 11
isr 11 leader none last-known 11 | 11 leaves uncleanly | active 12 13, no elr | same
| elect | active 11 12 13, no elr | isr 11 leader 11 epoch 6 p 10
""")
def test_what_comes_of_an_event(rows):
    check(rows)


def test_sets_of_replicas_are_kept_in_preference_order():
    alone = PartitionState((11, 12, 13), (11,), 11, 5, 9)
    now = Situation(frozenset((11, 12, 13)), 2)
    full = change_isr(alone, (13, 11, 12), now)
    assert full.isr == (11, 12, 13)
    assert change_isr(full, (12, 13, 11), now) is full


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
