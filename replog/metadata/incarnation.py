"""The incarnation id of a broker's process: it registers with it, and names it in all later requests (CT-3).

It is a password that only the process and its controller know, so ids are compared in constant time."""

import hmac
from typing import NamedTuple

INCARNATION_ID_SIZE = 16
NONCE_SIZE = 16


class Claim(NamedTuple):
    """The registered process that a request claims to come from."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes


def is_same(incarnation_id: bytes, other: bytes) -> bool:
    return hmac.compare_digest(incarnation_id, other)


def proof(incarnation_id: bytes, broker_id: int, nonce: bytes) -> bytes:
    """Prove to the sender of the nonce that the incarnation id is known, without telling it to anybody (CT-21)."""
    return hmac.digest(incarnation_id, broker_id.to_bytes(4, "big", signed=True) + nonce, "sha256")
