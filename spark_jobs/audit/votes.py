"""Decides which replicas are wrong where they disagree. One that contradicts itself has no vote."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from spark_jobs.audit.findings import Mismatch, View, replica_names

Blame = tuple[int | None, str]  # a wrong replica, and the reason; None: nothing tells which is wrong


def blame(mismatch: Mismatch, contradicted: Collection[int]) -> list[Blame]:
    """Return all replicas that are wrong. `contradicted`: those whose own files contradict their batch there.

    Such a replica is wrong, unless another has the same batch, does not contradict itself and is not outvoted.
    """
    parties = {replica for pair in mismatch.pairs for replica in pair}
    views = [view for view in mismatch.views if view.replica in parties]
    believed = [view for view in views if view.replica not in contradicted]
    silent = parties.intersection(contradicted)
    if not believed:
        return [(None, f"{replica_names(silent)} contradict themselves, each by its own digests, epochs or producers")]
    voted = _vote(believed, [set(pair) for pair in mismatch.pairs if not silent.intersection(pair)])
    outvoted = {replica for replica, _ in voted}
    standing = {_content(view) for view in believed if view.replica not in outvoted}
    blamed: list[Blame] = [
        (view.replica, f"replica {view.replica}'s own digests, epochs or producers contradict its batches")
        for view in views
        if view.replica in contradicted and _content(view) not in standing
    ]
    if silent and not blamed:
        voted = [
            (replica, f"{why}; who contradicts itself has no vote: {replica_names(silent)}") for replica, why in voted
        ]
    return blamed + voted


def _vote(views: list[View], pairs: list[set[int]]) -> list[Blame]:
    """Blame the minority, else the replica with the oldest epoch, else nobody known; no blame if all agree."""
    agreeing, *alone = _by_content(views)
    if not alone:
        return []
    if len(agreeing) > len(alone[0]):
        outvoted = sorted(view.replica for group in alone for view in group)
        minority = f"{replica_names(outvoted)} {'is' if len(outvoted) == 1 else 'are'} alone"
        why = f"{replica_names(view.replica for view in agreeing)} agree, {minority}"
        return [(replica, why) for replica in outvoted]
    common = set.intersection(*pairs) if pairs else set()
    others = set().union(*pairs) - common
    if len(others) > 1 and len(_by_content(view for view in views if view.replica in others)) == 1:
        return [(min(common), f"{replica_names(others)} agree, {replica_names(common)} is alone")]
    oldest = [view.replica for view in views if view.epoch == min(view.epoch for view in views)]
    if len(oldest) == 1:
        why = f"replica {oldest[0]} holds the older leader epoch: it kept what a newer leader replaced"
        return [(oldest[0], why)]
    return [(None, "the replicas are evenly split and none contradicts itself")]


def _content(view: View) -> tuple[int, int, int, int]:
    return view.last_offset, view.epoch, view.crc, view.size


def _by_content(views: Iterable[View]) -> list[list[View]]:
    """Group views with the same batch, the largest group first."""
    groups: dict[tuple[int, int, int, int], list[View]] = defaultdict(list)
    for view in views:
        groups[_content(view)].append(view)
    return sorted(groups.values(), key=len, reverse=True)
