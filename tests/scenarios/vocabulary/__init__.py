"""Every event of the language; importing this registers them."""

from tests.scenarios.events import EVENTS, perform
from tests.scenarios.vocabulary import (
    controllers,
    epoch_cache,
    followers,
    leaders,
    nouns,
    processes,
    questions,
    sessions,
)

__all__ = [
    "EVENTS",
    "controllers",
    "epoch_cache",
    "followers",
    "leaders",
    "nouns",
    "perform",
    "processes",
    "questions",
    "sessions",
]
