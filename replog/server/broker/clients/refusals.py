"""Messages for errors that have only a code: what was asked for, and what to do about it."""

from replog.errors import ErrorCode, ReplogError
from replog.server.authorizer import refused_topic
from replog.topic import TopicPartition

_WHY = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "broker {broker} knows no {tp}; look at the name, or refresh metadata",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "broker {broker} does not lead {tp}; refresh metadata",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of {tp} on broker {broker} has failed; another one may lead it: "
    "refresh metadata",
    ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch of the request is older than that of {tp} on broker {broker}; "
    "refresh metadata",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the leader epoch of the request is newer than that of {tp} on broker {broker}, "
    "which will hear of it; try again",
    ErrorCode.INCONSISTENT_TOPIC_ID: "{tp} on broker {broker} is of another topic of this name; refresh metadata",
}


def refusal(code: ErrorCode, tp: TopicPartition, broker_id: int) -> ReplogError:
    """Return the error of a partition in an answer."""
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return refused_topic(tp.topic)
    why = _WHY.get(code, "broker {broker} does not serve {tp}; refresh metadata, and try again")
    return ReplogError(code, why.format(broker=broker_id, tp=str(tp)[:300]))
