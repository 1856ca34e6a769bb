"""Every error ends a call with the gRPC code that says the same, and the contract says which, and what to do."""

import re
from pathlib import Path

import grpc
import pytest
from google.rpc import code_pb2
from grpc.aio import AioRpcError, Metadata

from replog.errors import RETRIABLE, ErrorCode, ReplogError
from replog.rpc.generate import PROTO
from replog.rpc.grpcio.channel import from_rpc_error
from replog.rpc.status import GRPC_CODES, to_status
from replog.rpc.v1 import common_pb2

ENDINGS = [code for code in ErrorCode if code is not ErrorCode.NONE]
PASSES = {"UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}  # clients of gRPC ask again


@pytest.fixture(scope="module")
def contract() -> dict[str, tuple[str, str]]:
    """What the contract's comments say of each code: what a client does, and gRPC's code."""
    text = Path(PROTO, "replog/v1/common.proto").read_text()
    return {name: (does, code) for name, does, code in re.findall(r"^  (\w+) = \S+;  // (\w+), (\w+)", text, re.M)}


def test_the_contract_and_the_code_name_the_same_errors():
    assert dict(common_pb2.ErrorCode.items()) == {code.name: int(code) for code in ErrorCode}


def test_every_error_has_a_grpc_code_on_purpose():
    assert set(GRPC_CODES) == set(ENDINGS)
    assert code_pb2.UNKNOWN not in GRPC_CODES.values()


@pytest.mark.parametrize("code", ENDINGS, ids=lambda code: code.name)
def test_a_call_ends_with_the_code_that_the_contract_names(code, contract):
    does, name = contract[code.name]
    assert to_status(ReplogError(code, "no")).code == code_pb2.Code.Value(name)
    assert does in ({"retry", "refresh"} if code in RETRIABLE else {"fatal"})


def test_whoever_knows_only_grpcs_codes_asks_again_when_it_helps(contract):
    again = {name for name, (does, code) in contract.items() if does != "fatal" and code not in PASSES}
    assert again == {"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"}, "which may be wrong names, too"
    in_vain = {name for name, (does, code) in contract.items() if does == "fatal" and code in PASSES}
    assert in_vain == {"OPERATION_NOT_ATTEMPTED", "INVALID_UPDATE_VERSION", "NEW_LEADER_ELECTED"}, "of brokers"


def test_a_call_that_ended_while_a_message_was_written_is_asked_again():
    """grpc.aio loses the status then."""
    error = AioRpcError(grpc.StatusCode.INTERNAL, Metadata(), Metadata(), details="Internal error from Core")
    failure = from_rpc_error(error, "127.0.0.1:9092")
    assert failure.code is ErrorCode.NETWORK_EXCEPTION
    assert failure.code in RETRIABLE
    assert "127.0.0.1:9092" in failure.message


def test_any_other_internal_error_is_none_that_is_asked_again():
    error = AioRpcError(grpc.StatusCode.INTERNAL, Metadata(), Metadata(), details="a defect")
    assert from_rpc_error(error, "127.0.0.1:9092").code is ErrorCode.UNKNOWN_SERVER_ERROR
