"""Kafka's messages to bytes and back, without their headers. Each API and version gets its functions on first use.

Bytes behind a message are ignored, as Kafka ignores them: librdkafka sends some. A value for which a version has no
field is left out, and None is empty where a version has no null. A number that a field cannot hold is a `struct.error`.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from replog.kafka.decoding import compile_decoder
from replog.kafka.encoding import compile_encoder
from replog.kafka.errors import BadFrame
from replog.kafka.schema import Struct, read_schema
from replog.kafka.versions import APIS
from replog.log.offsets import Buffer

_REQUEST, _RESPONSE = 0, 1


def decode_request(key: int, version: int, data: memoryview) -> Any:
    """Return a message whose bytes and records are views of `data`. Raise BadFrame."""
    return _decode(key, version, _REQUEST, data)


def decode_response(key: int, version: int, data: memoryview) -> Any:
    return _decode(key, version, _RESPONSE, data)


def encode_request(key: int, version: int, message: Any) -> list[Buffer]:
    """Return pieces; bytes and records that are not small are pieces of their own."""
    return _encoder(key, version, _REQUEST)(message)


def encode_response(key: int, version: int, message: Any) -> list[Buffer]:
    return _encoder(key, version, _RESPONSE)(message)


def _decode(key: int, version: int, side: int, data: memoryview) -> Any:
    try:
        return _decoder(key, version, side)(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadFrame(f"it is cut short, or no UTF-8: {error}") from None


@cache
def _decoder(key: int, version: int, side: int) -> Callable[[memoryview], Any]:
    return compile_decoder(_schema(key, version, side), version)


@cache
def _encoder(key: int, version: int, side: int) -> Callable[[Any], list[Buffer]]:
    return compile_encoder(_schema(key, version, side), version)


def _schema(key: int, version: int, side: int) -> Struct:
    api = APIS.get(key)
    if api is None or not api.oldest <= version <= api.newest:
        raise BadFrame(f"API {key} is not served in version {version}: versions.py says which are")
    return read_schema(api.name)[side]
