"""The interpreter's garbage collection, with pauses that depend on new objects, not on all objects.

Python checks all objects again whenever their number has grown by a quarter: four times while a topic of 5,000
partitions is created, each time for 0.1 to 0.4 s, during which nothing is answered. Here, objects that survive a full
collection are not checked again until so many new ones exist that they may hide much garbage: objects that refer to
each other, such as those of closed connections. All others are freed at once."""

import gc
from collections.abc import Callable

NEW = 700, 5, 1  # some 9,000 new objects are searched at a time, for some milliseconds
UNSEEN = 2_000_000  # objects, some 200 MB: then all are checked once more


def search_what_is_new() -> Callable[[], None]:
    """Start this in the process. Returns a function that ends it."""
    unseen, searching_all = 0, True

    def on_search(phase: str, info: dict[str, int]) -> None:
        nonlocal unseen, searching_all
        if phase != "stop" or info["generation"] < 2:
            return
        unseen = 0 if searching_all else unseen + len(gc.get_objects(generation=2))
        searching_all = unseen > UNSEEN
        if searching_all:
            gc.unfreeze()
        else:
            gc.freeze()

    def end() -> None:
        gc.callbacks.remove(on_search)
        gc.set_threshold(*usual)
        gc.unfreeze()

    usual = gc.get_threshold()
    gc.set_threshold(*NEW)
    gc.callbacks.append(on_search)
    gc.collect()
    return end
