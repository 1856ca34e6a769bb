"""Wrong ways to hear of the metadata, and several controllers over an etcd with a part of their rules left out."""

from collections.abc import Iterable, Mapping, Set

from replog.config.settings import Settings
from replog.controller.cluster_state import ClusterState
from replog.controller.restoration import Held, Restored, restored
from replog.log.directories.identity import Position
from replog.metadata.image import MetadataImage
from replog.rpc.v1.etcd_pb2 import Compare
from replog.server.broker.control import controller_link
from replog.server.controller import restoring
from replog.server.controller.etcd import store
from replog.server.controller.etcd.election import Leadership
from tests.replog.simulator.variants import Variant

_leave = MetadataImage._leave


def _leave_when_told(image: MetadataImage, topic: str, topic_id: bytes | None) -> None:
    if topic_id is None:
        _leave(image, topic, topic_id)


def _check_nothing(state: ClusterState, known: Position) -> None:
    pass


def _by_who_is_there(copy: MetadataImage, held: Iterable[Held], read: Set[int], restorations: int = 0) -> Restored:
    return restored(copy, [each._replace(last_epoch=-1, log_end_offset=0) for each in held], read, restorations)


def _as_if_never_compacted(copy, held, read, restorations=0):
    return restored(copy, [each._replace(compacted=False) for each in held], read, restorations)


def _all_or_nothing(model: type[Settings], stored: Mapping[str, str]) -> Settings:
    return model.parse(stored, "the metadata")


def _of_nobody(key: bytes, revision: int) -> Compare:
    """Holds always."""
    return Compare(target=Compare.MOD, key=b"nobody's", mod_revision=0)


def _once_elected(self: Leadership, now_ms: int) -> int:
    return 0 if self._until_ms is None else 60_000


VARIANTS = [
    Variant("missed-deletion-unnoticed", "many", (MetadataImage, "_leave", _leave_when_told)),
    Variant("controller-behind-obeyed", "stores", (ClusterState, "check_known", _check_nothing)),
    Variant("restored-by-who-is-there", "stores", (restoring, "restored", _by_who_is_there)),
    Variant(
        "stored-settings-must-be-known", "settings", (Settings, "readable", classmethod(_all_or_nothing)), raises=True
    ),
    Variant("restored-as-if-never-compacted", "stores", (restoring, "restored", _as_if_never_compacted)),
    Variant("commits-without-leading", "controllers", (store, "created_at", _of_nobody)),
    Variant("believes-past-its-lease", "controllers", (Leadership, "left_ms", _once_elected)),
    Variant("stays-with-other-metadata", "controllers", (controller_link, "_HAS_OTHERS", ())),
]
