"""Error codes: one list in Python, one on the wire, the same."""

from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import common_pb2


def test_the_wire_knows_exactly_the_same_codes():
    assert {code.name: int(code) for code in ErrorCode} == dict(common_pb2.ErrorCode.items())


def test_a_code_from_a_newer_peer_is_an_unknown_error():
    assert ErrorCode(31999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_shows_its_name_and_message():
    error = ReplogError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "broker 1 does not lead t-0")
    assert str(error) == "NOT_LEADER_OR_FOLLOWER: broker 1 does not lead t-0"
    assert error.retriable
    assert not ReplogError(ErrorCode.INVALID_CONFIG, "x").retriable
