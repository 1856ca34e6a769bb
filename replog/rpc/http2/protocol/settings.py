"""SETTINGS of HTTP/2: those that count here, and their limits (RFC 9113 6.5.2)."""

import struct

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.frames import (
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    MAX_MAX_FRAME,
    MAX_WINDOW,
    MIN_MAX_FRAME,
    PROTOCOL_ERROR,
    ConnectionFailure,
)

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)
MAX_HEADER_LIST_SIZE = 6
_SETTING = struct.Struct(">HL")


def pack_settings(values: dict[int, int]) -> bytes:
    return b"".join(_SETTING.pack(name, value) for name, value in values.items())


def parse_settings(payload: Buffer, from_server: bool) -> list[tuple[int, int]]:
    """Return the settings in their order, also unknown ones. Raises ConnectionFailure."""
    if len(payload) % _SETTING.size:
        raise ConnectionFailure(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes, which is no multiple of 6")
    settings: list[tuple[int, int]] = list(_SETTING.iter_unpack(payload))
    for name, value in settings:
        if name == INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise ConnectionFailure(FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE {value} is over {MAX_WINDOW}")
        if (name == MAX_FRAME_SIZE and not MIN_MAX_FRAME <= value <= MAX_MAX_FRAME) or (
            name == ENABLE_PUSH and value > (0 if from_server else 1)
        ):
            raise ConnectionFailure(PROTOCOL_ERROR, f"setting {name} may not be {value}")
    return settings
