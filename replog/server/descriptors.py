"""The limit of a process's descriptors, and the share of the files of logs."""

import resource

from replog.log.files.open_files import OPEN_FILES

MOST_OPEN = 1 << 15  # files of logs; each costs the kernel a kilobyte or two


def raise_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard one, and return that.

    Half of it is for the files of logs. The rest is for connections, checkpoints, SQLite, reads of cold files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = MOST_OPEN * 2 if hard == resource.RLIM_INFINITY else hard
    OPEN_FILES.get().limit = min(most // 2, MOST_OPEN)
    return hard
