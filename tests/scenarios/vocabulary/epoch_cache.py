"""An epoch cache by itself."""

from replog.log.epochs import LeaderEpochCache
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import parse_entries
from tests.scenarios.world import World


@event("cache TEXT end N")
def make_cache(world: World, entries: str, end: str) -> None:
    world.cache = LeaderEpochCache(world.directory / "leader-epoch-checkpoint", parse_entries(entries))
    world.cache_end = int(end)


def _cache(world: World) -> LeaderEpochCache:
    if world.cache is None:
        raise ScenarioError("there is no cache; write `cache (1@0) (4@20) end 50` above")
    return world.cache


@event("end of epochs TEXT")
def ends(world: World, epochs: str) -> None:
    answers = [_cache(world).end_offset_for(int(epoch), world.cache_end) for epoch in epochs.split()]
    world.say(" ".join(f"({end.epoch},{end.end_offset})" for end in answers))


@event("assign TEXT")
def assign(world: World, entry: str) -> None:
    _cache(world).assign(*parse_entries(entry)[0])


@event("truncate from the end N")
def truncate_end(world: World, offset: str) -> None:
    _cache(world).truncate_from_end(int(offset))


@event("truncate from the start N")
def truncate_start(world: World, offset: str) -> None:
    _cache(world).truncate_from_start(int(offset))
