"""Chooses the replica that a consumer should read from (FE-19), as Kafka's RackAwareReplicaSelector does."""

from collections.abc import Iterable
from typing import NamedTuple

from leader.follower_state import FollowerState


class ReadReplica(NamedTuple):
    """A live follower in the committed ISR. One outside of it could keep a consumer behind a growing lag."""

    broker_id: int
    rack: str
    state: FollowerState

    def covers(self, fetch_offset: int) -> bool:
        """Return True if the offset lies in the follower's log, as far as the leader knows."""
        return self.state.log_start_offset <= fetch_offset <= self.state.log_end_offset


def read_replica(
    client_rack: str, fetch_offset: int, leader_id: int, leader_rack: str, followers: Iterable[ReadReplica]
) -> int:
    """Return the leader if it is in the client's rack, or if no replica there has the offset, else the replica there
    with the highest log end; among equals the one caught up last, then the one with the highest id."""
    if leader_rack == client_rack:
        return leader_id
    near = [follower for follower in followers if follower.rack == client_rack and follower.covers(fetch_offset)]
    if not near:
        return leader_id
    return max(near, key=lambda f: (f.state.log_end_offset, f.state.caught_up_ms, f.broker_id)).broker_id
