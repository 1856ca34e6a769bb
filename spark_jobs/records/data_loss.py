"""Handles records that a query must read but that are gone: it fails, or warns and goes on."""

import logging

from replog.errors import ErrorCode

logger = logging.getLogger(__name__)


def report_data_loss(fail: bool, message: str) -> None:
    """Raise OFFSET_OUT_OF_RANGE if `fail`, the option failOnDataLoss; otherwise log a warning."""
    if fail:
        raise ErrorCode.OFFSET_OUT_OF_RANGE.error(
            f"{message}; to go on all the same, set the option failOnDataLoss to false"
        )
    logger.warning("%s; failOnDataLoss is false: going on", message)
