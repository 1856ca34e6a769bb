"""A container's memory: budgets of a broker that do not fit into it are made smaller, with a warning."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from replog.config.processes import BrokerConfig
from replog.log.files.open_files import OPEN_FILES
from replog.log.files.tail import ALL_BYTES
from replog.rpc import limits

log = structlog.get_logger()

BASE_BYTES = 80 << 20  # a broker that has started, without what the budgets bound
LEAST = 1 << 20  # bytes of each budget
_BUDGETS = ("queued_max_request_bytes", "queued_max_response_bytes", "log_cleaner_dedupe_buffer_size")
_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory_limit(groups: Path = _GROUPS, own: Path = _OWN) -> int | None:
    """Return the lowest limit of this process's control groups, in bytes; None if there is none."""
    return min(_limits(groups, own), default=None)


def _limits(groups: Path, own: Path) -> Iterator[int]:
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "memory" not in kinds.split(","):
                continue
            root, name = (groups / "memory", "memory.limit_in_bytes") if kinds else (groups, "memory.max")
            place = root / path.lstrip("/")
            for group in (place, *place.parents):
                with suppress(OSError, ValueError):  # "max" is no number
                    yield int((group / name).read_text())
                if group == root:
                    break


def fitted(config: BrokerConfig, limit: int | None) -> BrokerConfig:
    """Return the settings with budgets made smaller by the same factor, if they do not fit into `limit` together."""
    budgets = {name: int(getattr(config, name)) for name in _BUDGETS}
    total = sum(budgets.values()) + ALL_BYTES + limits.MAX_UNREAD_BYTES
    if limit is None or BASE_BYTES + total <= limit:
        return config
    factor = max(limit - BASE_BYTES, 0) / total
    smaller = {name: max(int(budget * factor), LEAST) for name, budget in budgets.items()}
    OPEN_FILES.get().tails.limit = max(int(ALL_BYTES * factor), LEAST)
    limits.MAX_UNREAD_BYTES = max(int(limits.MAX_UNREAD_BYTES * factor), 2 * limits.MAX_REQUEST_BYTES)
    log.warning(
        "little memory: budgets are made smaller",
        limit=limit,
        wanted=BASE_BYTES + total,
        remedy="give this broker's control group more memory, or lower these settings yourself",
        **{name.replace("_", "."): budget for name, budget in smaller.items()},
    )
    return config.model_copy(update=smaller)
