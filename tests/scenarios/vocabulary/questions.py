"""What replicas are asked, fetches and offsets, and what an epoch cache by itself is."""

from leader.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from replog.errors import ReplogError
from replog.log.epochs import LeaderEpochCache
from replog.log.fetch import CONSUMER, FetchAnswer, FetchPartition, SessionRequest
from replog.log.offsets import Isolation
from replog.metadata.values import NO_BROKER_EPOCH
from replog.topic import TopicPartition
from tests.leader.replicas import ONE_MIB
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import parse_entries, show_answer, show_fetch
from tests.scenarios.vocabulary.replicas import leader_of, replica_of
from tests.scenarios.world import World

_FETCH = ("epoch", "max", "limit", "wait", "min", "broker-epoch", "rack")


@event("WHO asks REPLICAS fetch(N)", *_FETCH)
@event("WHO asks REPLICAS fetch(N, N)", *_FETCH)
def asks(world: World, who: str, names: str, offset: str, last_epoch: str | None = None, **options: str) -> None:
    asked: dict[TopicPartition, FetchPartition] = {}
    for name in names.split():
        broker, tp = replica_of(world, name)
        epoch = options.get("epoch", str(broker.hosted[tp].leader_epoch))
        asked[tp] = FetchPartition(
            int(offset),
            int(options.get("max", ONE_MIB)),
            None if epoch == "none" else int(epoch),
            None if last_epoch is None else int(last_epoch),
        )
    waiting = {
        "max_wait_ms": int(options.get("wait", 500)),
        "min_bytes": int(options.get("min", 1)),
        "max_bytes": int(options.get("limit", 10 * ONE_MIB)),
    }
    if who != "consumer":
        broker_epoch = int(options["broker_epoch"]) if "broker_epoch" in options else None
        world.ask(int(who), broker, asked, broker_epoch, **waiting)
        return
    shown = {tp: show_fetch(request, tp, len(asked)) for tp, request in asked.items()}

    def respond(answers: dict[TopicPartition, FetchAnswer]) -> None:
        for tp, answer in answers.items():
            preferred = answer.preferred_read_replica
            sent = f", read from {preferred}" if preferred is not None else ""
            world.say(f"{shown[tp]} → {show_answer(answer)}{sent}")

    request = SessionRequest(
        CONSUMER, NO_BROKER_EPOCH, named=asked, isolation=Isolation.HIGH_WATERMARK, rack=options.get("rack"), **waiting
    )
    if broker.answer_consumer(request, respond):
        world.say(f"{', '.join(shown.values())} → waits")


@event("WHO asks REPLICA latest", "epoch")
def asks_latest(world: World, who: str, name: str, epoch: str | None = None) -> None:
    _list_offset(world, who, name, LATEST_TIMESTAMP, epoch)


@event("WHO asks REPLICA earliest", "epoch")
def asks_earliest(world: World, who: str, name: str, epoch: str | None = None) -> None:
    _list_offset(world, who, name, EARLIEST_TIMESTAMP, epoch)


def _list_offset(world: World, who: str, name: str, timestamp: int, epoch: str | None) -> None:
    isolation = Isolation.HIGH_WATERMARK if who == "consumer" else Isolation.LOG_END
    _, _, leader = leader_of(world, name)
    try:
        answer = leader.list_offset(timestamp, isolation, None if epoch is None else int(epoch))
    except ReplogError as error:
        world.say(error.code.name)
    else:
        world.say(f"{answer.offset}, epoch {answer.leader_epoch}")


@event("WHO asks REPLICA the end of epoch N", "epoch")
def asks_end_of_epoch(world: World, who: str, name: str, asked: str, epoch: str | None = None) -> None:
    _, _, leader = leader_of(world, name)
    try:
        answer = leader.end_offset_for_epoch(None if epoch is None else int(epoch), int(asked))
    except ReplogError as error:
        world.say(error.code.name)
    else:
        world.say(f"({answer.epoch},{answer.end_offset})")


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
