"""Handles records that are gone, and those that cannot be shown: the query fails, or warns and goes on.

Any producer can write records that cannot be shown, since brokers do not look at records. A flipped bit is another
matter: the CRC shows it."""

import logging

from replog.errors import ErrorCode, ReplogError
from spark_jobs.records.columns import Longs, Mask

MAX_TIMESTAMP_MS = (2**63 - 1) // 1000  # Spark counts microseconds
# The years 1 to 9999 in any time zone, which Spark documents for timestamps, and Python can hold.
FIRST_SHOWN_MS, LAST_SHOWN_MS = -62_135_510_400_000, 253_402_214_400_000

logger = logging.getLogger(__name__)


def report_data_loss(fail: bool, message: str) -> None:
    """Raise OFFSET_OUT_OF_RANGE if `fail`, the option failOnDataLoss; otherwise log a warning."""
    if fail:
        raise ErrorCode.OFFSET_OUT_OF_RANGE.error(
            f"{message}; to go on all the same, set the option failOnDataLoss to false"
        )
    logger.warning("%s; failOnDataLoss is false: going on", message)


class BadRecords:
    """The bad records of one task. With `fail` the first one raises; the error says how to go on past it.

    Otherwise records that do not decode are left out, a time that Spark or Python cannot hold is null, and `warn` logs.
    """

    def __init__(self, partition: object, *, fail: bool) -> None:
        self._partition = partition
        self._fail = fail
        self._found: list[str] = []
        self._count = 0

    def undecoded(self, first: int, last: int, reason: str) -> None:
        """Note that the records from `first` to `last` are left out. Raises CORRUPT_MESSAGE if `fail`."""
        what = (
            f"the record at offset {first} does" if first == last else f"the records from offset {first} to {last} do"
        )
        self._tell(ErrorCode.CORRUPT_MESSAGE, last - first + 1, f"{what} not decode: {reason}")

    def without_time(self, offsets: Longs, timestamps: Longs) -> Mask:
        """Return the mask of records whose timestamps (ms) must become null. Raises INVALID_TIMESTAMP if `fail`."""
        least, most = (-MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS) if self._fail else (FIRST_SHOWN_MS, LAST_SHOWN_MS)
        none = (timestamps < least) | (timestamps > most)
        if none.any():
            first = int(none.argmax())
            self._tell(
                ErrorCode.INVALID_TIMESTAMP,
                int(none.sum()),
                f"the record at offset {offsets[first]} is dated {timestamps[first]} ms since 1970, and Spark holds no "
                f"such time ({least} to {most}); its producer may count micro- or nanoseconds",
            )
        return none

    def warn(self) -> None:
        """Log one warning about all bad records, if there were any."""
        if self._count:
            logger.warning(
                "%s: %d records were left out or have no timestamp; failOnBadRecords is false: going on; the first: %s",
                self._partition,
                self._count,
                self._found[0],
            )

    def _tell(self, code: ErrorCode, count: int, what: str) -> None:
        if self._fail:
            raise ReplogError(
                code, f"{self._partition}: {what}; to go on past such records, set the option failOnBadRecords to false"
            )
        self._count += count
        self._found = self._found or [what]
