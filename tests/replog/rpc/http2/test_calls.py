"""Header lists of gRPC calls, both ways, and what is wrong with those of others."""

import pytest
from google.rpc import code_pb2
from hypothesis import given
from hypothesis import strategies as st

from replog.errors import ErrorCode, ReplogError
from replog.rpc.http2.protocol.hpack import encode_fields
from replog.rpc.http2.shells.calls import (
    ANSWER,
    OK_TRAILERS,
    Refused,
    parse_answer,
    parse_request,
    parse_trailers,
    request_fields,
    trailers,
    whole_answer,
)
from replog.rpc.status import MAX_MESSAGE, CallStatus, from_status, to_status

ERROR = ReplogError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name: 100 % ä\n")


def asked(**changed: bytes) -> list[tuple[bytes, bytes]]:
    fields = dict(request_fields("/a/B", "host:1", 1500)) | {
        name.replace("_", "-").encode(): value for name, value in changed.items()
    }
    return [(b":method" if name == b"method" else name, value) for name, value in fields.items()]


def test_a_request_is_read_as_it_was_meant():
    assert parse_request(asked()) == ("/a/B", 1.5)
    assert parse_request(request_fields("/a/B", "host:1", None)) == ("/a/B", None)


@pytest.mark.parametrize(
    ("value", "seconds"), [(b"2H", 7200.0), (b"3M", 180.0), (b"4S", 4.0), (b"5m", 0.005), (b"99999999n", 0.099999999)]
)
def test_a_deadline_has_a_unit(value, seconds):
    assert parse_request(asked(grpc_timeout=value))[1] == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"-1S", b"1.5S", b"123456789S", b"1s", b" 1S", b"\xff"])
def test_a_deadline_that_is_none_is_a_bad_request(value):
    with pytest.raises(Refused) as refused:
        parse_request(asked(grpc_timeout=value))
    assert dict(refused.value.fields)[b":status"] == b"400"
    status = parse_trailers(refused.value.fields)
    assert status is not None
    assert status.code == code_pb2.INTERNAL
    encode_fields(refused.value.fields)


def test_a_deadline_fits_eight_digits():
    assert dict(request_fields("/a/B", "h:1", 0))[b"grpc-timeout"] == b"1m"
    assert dict(request_fields("/a/B", "h:1", 10**12))[b"grpc-timeout"] == b"99999999m"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"method": b"GET"}, b"405"),
        ({"content_type": b"text/html"}, b"415"),
        ({"content_type": b"application/grpcx"}, b"415"),
    ],
)
def test_what_is_no_grpc_has_an_answer_of_http(changed, status):
    fields = [
        (b":method", changed["method"]) if name == b":method" and "method" in changed else (name, value)
        for name, value in asked(**{k: v for k, v in changed.items() if k != "method"})
    ]
    with pytest.raises(Refused) as refused:
        parse_request(fields)
    assert refused.value.fields[0] == (b":status", status)


@pytest.mark.parametrize("kind", [b"application/grpc", b"application/grpc+proto", b"application/grpc;charset=x"])
def test_every_kind_of_grpc_is_taken(kind):
    assert parse_request(asked(content_type=kind))[0] == "/a/B"


def test_compressed_requests_are_unimplemented():
    with pytest.raises(Refused) as refused:
        parse_request(asked(grpc_encoding=b"gzip"))
    status = parse_trailers(refused.value.fields)
    assert status is not None
    assert status.code == code_pb2.UNIMPLEMENTED
    assert parse_request(asked(grpc_encoding=b"identity"))


@pytest.mark.parametrize("fields", [trailers, whole_answer])
def test_an_error_comes_back_as_itself(fields):
    status = parse_trailers(fields(to_status(ERROR)))
    assert status is not None
    error = from_status(status, "host:1")
    assert (error.code, error.message) == (ERROR.code, ERROR.message)


@given(st.text(max_size=4000))
def test_any_message_can_be_sent_and_takes_little_room(message):
    fields = trailers(to_status(ReplogError(ErrorCode.INVALID_REQUEST, message)))
    block = encode_fields(fields)
    status = parse_trailers(fields)
    assert status is not None
    assert len(block) < 16 << 10
    if len(message.encode()) <= MAX_MESSAGE:
        assert status.message == message
    else:
        assert status.message.endswith("...")
        assert message.startswith(status.message.removesuffix("..."))


def test_the_end_of_a_call_that_went_well_is_no_error():
    assert parse_trailers(OK_TRAILERS) is None
    assert parse_answer(ANSWER) is None


@pytest.mark.parametrize("said", [[], [(b"grpc-status", b"")], [(b"grpc-status", b"x")], [(b"grpc-status", b"9" * 10)]])
def test_an_end_without_a_status_is_an_error(said):
    status = parse_trailers(said)
    assert status is not None
    assert status.code == code_pb2.UNKNOWN


def test_details_that_are_no_base64_say_nothing():
    status = parse_trailers([(b"grpc-status", b"5"), (b"grpc-status-details-bin", b"a"), (b"grpc-message", b"a%20%")])
    assert status == CallStatus(5, "a %", b"")


@pytest.mark.parametrize(
    ("http", "code"), [(b"404", code_pb2.UNIMPLEMENTED), (b"503", code_pb2.UNAVAILABLE), (b"302", code_pb2.UNKNOWN)]
)
def test_an_answer_of_another_kind_of_server_is_an_error(http, code):
    wrong = parse_answer([(b":status", http), (b"content-type", b"text/html")])
    assert wrong is not None
    assert wrong.code == code
    wrong = parse_answer([(b":status", b"200"), (b"content-type", b"text/html")])
    assert wrong is not None
    assert "text/html" in wrong.message
