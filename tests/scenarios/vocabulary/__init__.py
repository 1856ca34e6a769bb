"""Every event of the language; importing this registers them."""

from tests.scenarios.events import EVENTS, perform
from tests.scenarios.vocabulary import controllers, processes, questions, replicas  # noqa: F401 - they register events

__all__ = ["EVENTS", "perform"]
