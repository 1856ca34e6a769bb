"""Who leads, and what every event does to the in-sync set, the eligible replicas and the epochs."""

from replog.controller.elections import Situation, change_isr
from replog.metadata.values import PartitionState
from tests.replog.controller.partition_tables import check, table


@table("""
R-W-C6, CT-8: on request an unclean election needs no permission
isr 11 | 11 leaves | active 12 13, no elr | isr 11 leader none epoch 6 p 10 last-known 11
| elect unclean | active 12 13, no elr | isr 12 leader 12 epoch 7 p 11 recovering

ISR-17: when every copy stopped uncleanly the last known leader leads again, recovering
isr 11 elr 12 | 11 leaves | active 13 | isr ∅ leader none epoch 6 p 10 elr 11 12 last-known 11
| 12 leaves uncleanly | active 13 | isr ∅ leader none epoch 6 p 11 elr 11 last-known 11
| 11 leaves uncleanly | active 12 13 | isr ∅ leader none epoch 6 p 12 last-known 11
| elect | active 12 13 | same
| elect | active 11 12 13 | isr 11 leader 11 epoch 7 p 13 recovering

ISR-17: it leads as soon as the last eligible replica is lost
isr ∅ leader none elr 12 last-known 11 | 12 leaves uncleanly | active 11 13 | isr 11 leader 11 epoch 6 p 10 recovering

ISR-17: where a reassignment took away who led last, the last eligible replica leads again; else nobody ever would
isr ∅ leader none elr 12 | 12 leaves uncleanly | active 11 13 | isr ∅ leader none epoch 5 p 10 last-known 12
| elect | active 11 12 13 | isr 12 leader 12 epoch 6 p 11 recovering

ISR-17: the ISR comes before the ELR: 13 may have committed since 12 left
isr 13 leader none elr 12 last-known 13 | elect | active 11 12 | same
" | elect | active 12 13 | isr 13 leader 13 epoch 6 p 10 elr 12

ISR-16: a leader alone in the ISR that restarts uncleanly gives way to the eligible replica
isr 11 elr 12 | 11 leaves uncleanly | active 13 | isr ∅ leader none epoch 6 p 10 elr 12 last-known 11
| elect | active 11 12 13 | isr 12 leader 12 epoch 7 p 11
isr 11 elr 12 | 11 leaves uncleanly | active 12 13 | isr 12 leader 12 epoch 6 p 10

ISR-15: the ELR is cleared once the ISR reaches the minimum
isr 11 elr 12 | isr 11 13 | | isr 11 13 leader 11 epoch 5 p 10

ISR-15: an ISR of one meets a minimum of one, so 12 may commit alone, and 11 is eligible no more
isr ∅ leader none elr 11 12 last-known 11 | elect | active 12, min 1 | isr 12 leader 12 epoch 6 p 10

PR-2: the minimum is never more than the replicas; a single replica that stopped uncleanly leads again as unclean
replicas 11 | 11 leaves | active none | replicas 11 isr ∅ leader none epoch 6 p 10 elr 11 last-known 11
| elect | active 11 | replicas 11 isr 11 leader 11 epoch 7 p 11
replicas 11 | 11 leaves uncleanly | active none | replicas 11 isr ∅ leader none epoch 6 p 10 last-known 11
| elect | active 11 | replicas 11 isr 11 leader 11 epoch 7 p 11 recovering

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

CT-8, ISR-17: an unclean election is the last resort and makes its leader the whole ISR; who led last comes first
isr ∅ leader none elr 13 last-known 11 | elect unclean | active 11 13 | isr 13 leader 13 epoch 6 p 10
" | elect unclean | active 11 12 | isr 11 leader 11 epoch 6 p 10 recovering
isr ∅ leader none last-known 12 | elect unclean | | isr 12 leader 12 epoch 6 p 10 recovering
" | elect unclean | active none | same

CT-8: a preferred election is never unclean
isr ∅ leader none elr 13 last-known 11 | elect preferred | active 11 12, unclean allowed | same

CT-12: where unclean elections are allowed every event may hold one, if there is no clean leader
isr 11 | 11 leaves | active 12 13, no elr, unclean allowed | isr 12 leader 12 epoch 6 p 10 recovering
isr 11 12 | 11 leaves | active 12 13, unclean allowed | isr 12 leader 12 epoch 6 p 10 elr 11

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
