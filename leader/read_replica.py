"""Which replica a consumer should read from (FE-19): Kafka's RackAwareReplicaSelector."""

from collections.abc import Iterable
from typing import NamedTuple

from leader.follower_state import FollowerState


class ReadReplica(NamedTuple):
    """A live follower in the committed ISR: one outside of it could trap a consumer behind a lag that grows."""

    broker_id: int
    rack: str
    state: FollowerState

    def covers(self, fetch_offset: int) -> bool:
        """Whether the offset lies in the follower's log, as far as the leader knows."""
        return self.state.log_start_offset <= fetch_offset <= self.state.log_end_offset


def read_replica(
    client_rack: str, fetch_offset: int, leader_id: int, leader_rack: str, followers: Iterable[ReadReplica]
) -> int:
    """The leader if it is in the client's rack or nobody there has the offset; else the one that has most.

    Of several with as much it is the one that was caught up last, then that of the highest id.
    """
    if leader_rack == client_rack:
        return leader_id
    near = [follower for follower in followers if follower.rack == client_rack and follower.covers(fetch_offset)]
    if not near:
        return leader_id
    return max(near, key=lambda f: (f.state.log_end_offset, f.state.caught_up_ms, f.broker_id)).broker_id
