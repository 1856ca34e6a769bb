"""What happens to broker processes, and to the streams between them."""

from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from tests.leader.replicas import bytes_of
from tests.scenarios.broker import Stream
from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.vocabulary.replicas import replica_of
from tests.scenarios.world import World


@event("BROKER crashes")
@event("BROKER crashes and loses N and what follows")
def crashes(world: World, broker_id: str, lost_from: str | None = None) -> None:
    """At a power loss what had not reached the disk is gone, from this offset on."""
    broker = world.broker(int(broker_id))
    broker.alive = False
    for stream in [stream for stream in world.streams if broker in (stream.follower, stream.leader)]:
        world.close_stream(stream)
    for tp, hosted in broker.hosted.items():
        world.fetching.pop((broker.id, tp), None)
        if lost_from is not None:
            kept = sum(
                header.size
                for _, header in iterate_batches(bytes_of(hosted.log))
                if header.base_offset < int(lost_from)
            )
        hosted.log.abandon()
        if lost_from is not None:
            (segment,) = hosted.log.directory.glob("*.log")
            with segment.open("r+b") as file:
                file.truncate(kept)


@event("BROKER starts")
@event("BROKER starts with hw N")
def starts(world: World, broker_id: str, high_watermark: str | None = None) -> None:
    """From a checkpoint that is older than the crash, if it has another high watermark."""
    reopened = {}
    for tp, hosted in world.broker(int(broker_id)).hosted.items():
        old = hosted.log
        reopened[tp] = Log.open(
            old.directory,
            old.config,
            clean=False,
            log_start_offset=old.log_start_offset,
            high_watermark=old.high_watermark if high_watermark is None else int(high_watermark),
        )
    world.start(int(broker_id), reopened)


@event("BROKER hears no metadata")
def deaf(world: World, broker_id: str) -> None:
    world.broker(int(broker_id)).hears_metadata = False


@event("BROKER hears metadata")
def hears(world: World, broker_id: str) -> None:
    broker = world.broker(int(broker_id))
    broker.hears_metadata = True
    for tp, state in world.controller.image.partitions.items():
        world.tell(tp, state, [broker])


@event("purgatory of BROKER")
def purgatory(world: World, broker_id: str) -> None:
    broker = world.broker(int(broker_id))
    for name, (listed, waiting) in (("produces", broker.produces.sizes), ("fetches", broker.waiting_fetches)):
        world.say(f"{name}: {listed} listed, {waiting} waiting")


def stream_of(world: World, broker_id: str) -> Stream:
    streams = [stream for stream in world.streams if stream.follower.id == int(broker_id)]
    if not streams:
        raise ScenarioError(f"{broker_id} has no stream; write `{broker_id} opens a stream to 1`")
    return streams[0]


@event("BROKER opens a stream to BROKER")
def opens(world: World, follower_id: str, leader_id: str) -> None:
    world.open_stream(world.broker(int(follower_id)), world.broker(int(leader_id)))


@event("the stream of BROKER breaks")
def breaks(world: World, broker_id: str) -> None:
    world.close_stream(stream_of(world, broker_id))


@event("BROKER asks nothing more")
def falls_silent(world: World, broker_id: str) -> None:
    stream_of(world, broker_id).silent = True


@event("REPLICA is throttled")
def throttled(world: World, name: str) -> None:
    _throttle(world, name, listed=True)


@event("REPLICA is throttled no more")
def throttled_no_more(world: World, name: str) -> None:
    _throttle(world, name, listed=False)


def _throttle(world: World, name: str, *, listed: bool) -> None:
    """Its topic's settings list the replica, whichever role it plays."""
    broker, tp = replica_of(world, name)
    hosted = broker.hosted[tp]
    hosted.leader_quota = broker.replicas.sending.listed if listed else None
    hosted.follower_quota = broker.replicas.copying.listed if listed else None
    broker.touched(tp, high_watermark_advanced=False)
