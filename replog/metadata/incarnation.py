"""The incarnation id of a broker's process: it registers with it, and all that it asks for later carries it (CT-3).

A password: only the process and its controller know it. To compare two takes a time that tells nothing."""

import hmac
from typing import NamedTuple

INCARNATION_ID_SIZE = 16
NONCE_SIZE = 16


class Claim(NamedTuple):
    """The registered process that a request says it comes from."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes


def is_same(incarnation_id: bytes, other: bytes) -> bool:
    return hmac.compare_digest(incarnation_id, other)


def proof(incarnation_id: bytes, broker_id: int, nonce: bytes) -> bytes:
    """Shows who asked with this nonce that the incarnation id is known, and tells nobody what it is (CT-21)."""
    return hmac.digest(incarnation_id, broker_id.to_bytes(4, "big", signed=True) + nonce, "sha256")
