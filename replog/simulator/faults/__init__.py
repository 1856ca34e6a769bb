"""The faults that the nemesis makes, one coroutine for each kind, in modules named for what they hit."""

from replog.simulator.faults import (  # noqa: F401 - each registers its deeds
    connections,
    controllers,
    crashes,
    disks,
    duels,
    leadership,
    settings,
    stragglers,
)
