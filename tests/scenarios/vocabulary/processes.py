"""What happens to broker processes."""

from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from tests.leader.replicas import bytes_of
from tests.scenarios.events import event
from tests.scenarios.world import World


@event("BROKER crashes")
def crashes(world: World, broker_id: str) -> None:
    _crash(world, int(broker_id), None)


@event("BROKER crashes and loses N and what follows")
def crashes_losing(world: World, broker_id: str, offset: str) -> None:
    """Power loss: what had not reached the disk is gone, from this offset on."""
    _crash(world, int(broker_id), int(offset))


def _crash(world: World, broker_id: int, lost_from: int | None) -> None:
    broker = world.broker(broker_id)
    broker.alive = False
    for stream in [stream for stream in world.streams if broker in (stream.follower, stream.leader)]:
        world.close_stream(stream)
    for tp, hosted in broker.hosted.items():
        world.fetching.pop((broker_id, tp), None)
        if lost_from is not None:
            kept = sum(
                header.size for _, header in iterate_batches(bytes_of(hosted.log)) if header.base_offset < lost_from
            )
        hosted.log.abandon()
        if lost_from is not None:
            (segment,) = hosted.log.directory.glob("*.log")
            with segment.open("r+b") as file:
                file.truncate(kept)


@event("BROKER starts")
def starts(world: World, broker_id: str) -> None:
    _start(world, int(broker_id), None)


@event("BROKER starts with hw N")
def starts_with_hw(world: World, broker_id: str, high_watermark: str) -> None:
    """The checkpoint is older than the crash."""
    _start(world, int(broker_id), int(high_watermark))


def _start(world: World, broker_id: int, high_watermark: int | None) -> None:
    reopened = {}
    for tp, hosted in world.broker(broker_id).hosted.items():
        old = hosted.log
        reopened[tp] = Log.open(
            old.directory,
            old.config,
            clean=False,
            log_start_offset=old.log_start_offset,
            high_watermark=old.high_watermark if high_watermark is None else high_watermark,
        )
    world.start(broker_id, reopened)


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
