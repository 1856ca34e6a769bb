"""Runs the code of the cleaning process in a simulated thread, where it waits for the disk."""

from functools import partial

from replog.server.broker.cleaning.cleaning_requests import Cleanings, MapKeys, Rewrite
from replog.server.threads import in_thread


class SimulatedCleaning:
    """A `replog.server.broker.cleaning.log_cleaner.CleaningWorker`."""

    def __init__(self) -> None:
        self._cleanings = Cleanings()

    async def ask(self, request: MapKeys | Rewrite) -> int:
        return await in_thread(partial(self._cleanings.carry_out, request))

    async def close(self) -> None:
        """Do nothing, for nothing runs between two requests."""
