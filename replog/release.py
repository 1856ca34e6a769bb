"""This release, and the others that its brokers and controllers can work with (docs/operations.md). Pure."""

from typing import NamedTuple

from replog.errors import ErrorCode

VERSION = "0.1.0"
OLDEST_FEATURE_LEVEL = 1
NEWEST_FEATURE_LEVEL = 1
"""A level is what brokers and controllers say to each other, and what metadata records hold. A release that changes the
meaning of either gets the next level; as long as it also works at an older one, it can be rolled out process by
process."""

MAX_VERSION_LENGTH = 64


class Release(NamedTuple):
    """The release of one process, by default this one: a version for people, and the levels at which it can work."""

    version: str = VERSION  # empty: unknown
    oldest: int = OLDEST_FEATURE_LEVEL
    newest: int = NEWEST_FEATURE_LEVEL

    def check_fits(self, other: "Release", who: str) -> None:
        """Raise UNSUPPORTED_VERSION if there is no level at which both work. `who` is the other one, for the error."""
        if self.oldest <= other.newest and other.oldest <= self.newest:
            return
        raise ErrorCode.UNSUPPORTED_VERSION.error(
            f"{who} runs replog {other.version or 'of an unknown version'}, which works at feature levels "
            f"{other.oldest} to {other.newest}, and this controller runs {self.version}, which works at {self.oldest} "
            f"to {self.newest}; install releases that are closer to each other, the older one first"
        )
