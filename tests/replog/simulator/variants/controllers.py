"""Several controllers over an etcd, with a part of their rules left out."""

from replog.controller.leadership import Leadership
from replog.rpc.v1.etcd_pb2 import Compare
from replog.server.broker.control import controller_link
from replog.server.controller.etcd import store
from tests.replog.simulator.variants.variant import Variant


def _of_nobody(key: bytes, revision: int) -> Compare:
    """Holds always."""
    return Compare(target=Compare.MOD, key=b"nobody's", mod_revision=0)


def _once_elected(self: Leadership, now_ms: int) -> int:
    return 0 if self._until_ms is None else 60_000


VARIANTS = [
    Variant("commits-without-leading", "controllers", (store, "created_at", _of_nobody)),
    Variant("believes-past-its-lease", "controllers", (Leadership, "left_ms", _once_elected)),
    Variant("stays-with-other-metadata", "controllers", (controller_link, "_HAS_OTHERS", ())),
]
