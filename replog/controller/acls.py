"""ACLs are made and deleted, each request in one commit. Pure: random numbers are passed in."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replog.common.acl import Acl, AclFilter, as_connected, checked
from replog.controller.decision import Decision
from replog.controller.topics import Rng
from replog.errors import ErrorCode
from replog.metadata.acl_table import AclTable
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage

MAX_ACLS = 10_000
MAX_WIDE_FILTERS = 10  # one request's; each is compared with every ACL


class AlteredAcls(NamedTuple):
    """The number of ACLs created or deleted, and the metadata version that has the change."""

    altered: int
    metadata_version: int


def create_acls(image: MetadataImage, acls: Sequence[Acl], rng: Rng) -> Decision[AlteredAcls]:
    """Creates all of `acls`, or none. Skips those that exist. Raises INVALID_REQUEST."""
    new = [acl for acl in dict.fromkeys(map(checked, acls)) if acl not in image.acls.ids]
    _check_count(len(image.acls.ids) + len(new), MAX_ACLS, "ACLs in a cluster; delete some, or use PREFIXED patterns")
    changes = [Change("acl", rng.randbytes(16).hex(), acl) for acl in new]
    return Decision(changes, AlteredAcls(len(new), image.version + len(new)))


def delete_acls(image: MetadataImage, filters: Sequence[AclFilter]) -> Decision[AlteredAcls]:
    """Deletes every ACL that one of `filters` fits. Raises INVALID_REQUEST."""
    wide = sum(each.exactly is None for each in filters)
    _check_count(wide, MAX_WIDE_FILTERS, "filters in one request that may fit more than one ACL")
    gone = dict.fromkeys(acl for each in filters for acl in _fitting(image.acls, each))
    changes = [Change("acl", image.acls.ids[acl], None) for acl in gone]
    return Decision(changes, AlteredAcls(len(gone), image.version + len(gone)))


def describe_acls(image: MetadataImage, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that fit, sorted by resource."""
    return sorted(_fitting(image.acls, wanted))


def _fitting(table: AclTable, wanted: AclFilter) -> Iterable[Acl]:
    if wanted.host is not None:
        wanted = wanted._replace(host=as_connected(wanted.host))  # `checked` stores hosts in this form
    if (exact := wanted.exactly) is not None:
        return [exact] if exact in table.ids else []
    return filter(wanted.fits, table.ids)


def _check_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise ErrorCode.INVALID_REQUEST.error(f"{count} {what}: at most {most}")
