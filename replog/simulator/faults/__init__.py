"""The faults that the nemesis makes, one coroutine for each kind, in modules named for what they hit."""

from replog.simulator.faults import connections, controllers, crashes, disks, leadership  # noqa: F401 - they register
