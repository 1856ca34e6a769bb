"""Decides how far a follower cuts its log when the leader says that it diverged (7.4, FT-14)."""

from replog.log.offsets import EpochEndOffset


def truncation_target(leader: EpochEndOffset, local: EpochEndOffset, log_end_offset: int) -> int:
    """Return the offset to truncate to, given the ends of one epoch in the leader's log and in this one.

    `leader` is the diverging answer, `local` this log's own end offset for `leader.epoch`. If the two epochs differ,
    the cut is not final: the next fetch carries an older last epoch and is judged again, until one is accepted. Every
    round lowers the latest local epoch, so there are at most as many rounds as epochs.

    | Row | This log | Cut to |
    |---|---|---|
    | 3 | has no usable epoch cache | the leader's end |
    | 4 | does not know the epoch, only an older one | that one's end here (not final) |
    | 5 | knows the epoch | the lesser of both ends |

    The cut is never past this log's end. Rows 1 and 2 belong to forms of the protocol that replog does not use."""
    if local.end_offset < 0:
        return min(leader.end_offset, log_end_offset)
    if local.epoch != leader.epoch:
        return min(local.end_offset, log_end_offset)
    return min(leader.end_offset, local.end_offset, log_end_offset)
