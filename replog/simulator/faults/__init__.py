"""What the nemesis does, one coroutine for each kind of fault, in modules named for what is hit."""

from replog.simulator.faults import (  # noqa: F401 - each registers its deeds
    connections,
    controllers,
    crashes,
    disks,
    duels,
    leadership,
    log_dirs,
    settings,
    stragglers,
    unclean,
)
