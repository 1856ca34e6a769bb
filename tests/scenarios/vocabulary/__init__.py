"""Every event of the language; importing this registers them."""

from tests.scenarios.vocabulary import (  # noqa: F401
    controllers,
    epoch_cache,
    followers,
    leaders,
    nouns,
    processes,
    questions,
)
