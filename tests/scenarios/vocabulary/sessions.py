"""Fetch sessions: a follower's stream to its leader, for all partitions, and its throttle."""

from tests.scenarios.events import event
from tests.scenarios.language import ScenarioError
from tests.scenarios.streams import Stream
from tests.scenarios.vocabulary.names import replica_of
from tests.scenarios.world import World


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


@event("BROKER asks on")
def asks_on(world: World, broker_id: str) -> None:
    stream_of(world, broker_id).silent = False


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
