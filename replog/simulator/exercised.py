"""Counts what seeds exercised. A run that exercised nothing of what its profile is about is vacuous."""

from collections import Counter
from collections.abc import Iterable, Mapping

from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.history import History, Outcome
from replog.simulator.profiles import Profile

COMPARED = "records compared"  # the number that the last readers read
FAULTS, ELECTIONS, UNCLEAN = "faults", "elections", "elections by evidence, or unclean"
ENOUGH_SEEDS = 20  # fewer seeds may miss something by chance
ABOUT = {  # some seeds of a profile must have had these, besides faults; a profile that is not here: elections
    "calm": (),
    "compaction": ("cleanings", ELECTIONS),
    "crashes": (ELECTIONS, "truncations"),
    "directories": ("moves between directories",),
    "elections": (UNCLEAN,),
    "isr": ("changes of the ISR",),
    "laggards": ("truncations",),
    "moves": ("moves to other brokers", ELECTIONS),
    "permission": ("refusals",),
    "storm": (ELECTIONS, "truncations"),
    "transactions": ("transactions", ELECTIONS),
    "unclean": (UNCLEAN,),
}


def exercised(partitions: Iterable[PartitionLedger], history: History, faults: int) -> dict[str, int]:
    """Count how often each kind of event happened."""
    counts = Counter({FAULTS: faults, "refusals": history.denials})
    counts[COMPARED] = sum(len(drained.records) for drained in history.drained.values())
    counts["deletions of records"] = sum(deletion.outcome is Outcome.OK for deletion in history.deletions)
    transactions = {id(send.transaction): send.transaction for send in history.sends}.values()
    counts["transactions"] = sum(each is not None and each.committed is not None for each in transactions)
    for partition in partitions:
        counts += partition.done
        counts[UNCLEAN] += len(partition.unclean)
    return dict(sorted(counts.items()))


def vacuous(profile: Profile, seeds: int, counts: Mapping[str, int]) -> str:
    """Return a sentence that says why seeds that passed show nothing; empty if they show something."""
    wanted = [COMPARED]
    if seeds >= ENOUGH_SEEDS:
        wanted += [*([FAULTS] if profile.faults else []), *ABOUT.get(profile.name, (ELECTIONS,))]
    missing = [what for what in wanted if not counts.get(what)]
    return f"vacuous: {seeds} seeds of {profile.name} passed, without any {', any '.join(missing)}" if missing else ""
