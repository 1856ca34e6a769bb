"""Protocols that are wrong on purpose, by their names: a simulator that does not catch them is too weak."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

Change = tuple[Any, str, Any]  # owner, attribute, new value


class Variant:
    """`changes` are put in place of what is right for as long as `applied` lasts.

    variants.txt tells what is wrong, and which rules it breaks. `profile` is the one most likely to catch it.
    `raises`: what it does in life is to raise an exception.
    """

    def __init__(self, name: str, profile: str, *changes: Change, raises: bool = False) -> None:
        self.name = name
        self.profile = profile
        self.changes = changes
        self.raises = raises

    @contextmanager
    def applied(self) -> Iterator[None]:
        originals = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.changes]
        _put(self.changes)
        try:
            yield
        finally:
            _put(originals)


def _put(changes: Iterable[Change]) -> None:
    for owner, name, value in changes:
        setattr(owner, name, value)


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for module in iter_modules(__path__, f"{__name__}.")
    for variant in getattr(import_module(module.name), "VARIANTS", ())
}
