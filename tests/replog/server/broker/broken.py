"""Files that fail, by the operating system's own word."""

import os

from replog.log.log import Log


def break_files(log: Log) -> None:
    """From now on the active segment can be neither read nor written, no epoch noted and no segment begun."""
    directory = os.open("/", os.O_RDONLY)
    with log._segments.active.file as file:
        os.dup2(directory, file)
    os.close(directory)
    (log.directory / "leader-epoch-checkpoint.tmp").mkdir()
    (log.directory / f"{log.log_end_offset:020d}.log").mkdir()
