"""The promise of every set of settings: names and values are checked once at the door and stored in one notation, and
what is stored already is read without harm, whatever version wrote it (divergence 52)."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from replog.errors import ErrorCode

_LOOKS = 3  # so many wrong names are answered with a better one
_SHOWN = 60  # characters of a wrong value, at most


class Settings(BaseModel):
    """A frozen set of properties; fields are `dotted_names` with the dots replaced by underscores."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, alias_generator=lambda name: name.replace("_", ".")
    )
    when_unreadable: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # replace a setting that cannot be read

    @classmethod
    def parse(cls, properties: Mapping[str, Any], source: str) -> Self:
        """Check `properties` (from `source`, named in errors), whose names are Kafka's.

        Raises INVALID_CONFIG naming every bad setting."""
        try:
            return cls.model_validate(properties, by_alias=True, by_name=False)
        except ValidationError as error:
            faults = "; ".join(_faults(cls, error))
            raise ErrorCode.INVALID_CONFIG.error(f"{source}: {faults}") from None

    @classmethod
    def canonical(cls, properties: Mapping[str, str], source: str) -> dict[str, str]:
        """Return the text of each parsed value, as it is stored. Raises as `parse`."""
        given = cls.parse(properties, source).model_dump(by_alias=True, mode="json", exclude_unset=True)
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

    @classmethod
    def tidied(cls, stored: Mapping[str, str]) -> dict[str, str]:
        """Return stored settings as `canonical`; names of fields count where Kafka's are missing, as in 0.1.0.

        What this version does not know, or cannot read, stays as it is: it can be shown and deleted."""
        return dict(_tidied(cls, frozenset(stored.items())))

    @classmethod
    def readable(cls, stored: Mapping[str, str]) -> Self:
        """Return the tidied settings that can be read. No reader of the metadata may fail because of the others."""
        unreadable = cls.unreadable(stored)
        counting = {name: value for name, value in stored.items() if name not in unreadable}
        for name in unreadable:
            counting |= cls.when_unreadable.get(name, {})
        return cls.model_validate(counting, by_alias=True, by_name=False)

    @classmethod
    def unreadable(cls, stored: Mapping[str, Any]) -> Sequence[str]:
        """Return the names that this version does not know, or whose values it cannot read."""
        return _unreadable(cls, frozenset(stored.items()))

    @classmethod
    def named(cls, name: str) -> str:
        """Return Kafka's name of a setting, given that or its field's."""
        field = cls.model_fields.get(name)
        return (field.alias if field is not None else None) or name

    def properties(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, mode="json")


@lru_cache(maxsize=1000)
def _unreadable(model: type[Settings], stored: frozenset[tuple[str, Any]]) -> Sequence[str]:
    try:
        model.model_validate(dict(stored), by_alias=True, by_name=False)
    except ValidationError as error:
        return sorted({str(fault["loc"][0]) for fault in error.errors()})
    return ()


@lru_cache(maxsize=1000)
def _tidied(model: type[Settings], stored: frozenset[tuple[str, str]]) -> Mapping[str, str]:
    named = {model.named(name): value for name, value in stored} | {
        name: value for name, value in stored if model.named(name) == name
    }
    unreadable = model.unreadable(named)
    fine = {name: value for name, value in named.items() if name not in unreadable}
    return {**named, **model.canonical(fine, "the store")}


def _faults(model: type[Settings], error: ValidationError) -> Iterable[str]:
    """Return the first fault of each setting, in our words."""
    known = sorted(field.alias or name for name, field in model.model_fields.items())
    schema = model.model_json_schema()["properties"]
    faults: dict[str, str] = {}
    for fault in error.errors():
        name, what = str(fault["loc"][0]) if fault["loc"] else "", fault["msg"].removeprefix("Value error, ")
        if not name:
            faults[what] = what
        elif name in faults:
            continue
        elif fault["type"] == "extra_forbidden":
            faults[name] = f"{name[:_SHOWN]} is not a setting here" + (
                _instead(name, known) if len(faults) < _LOOKS else ""
            )
        elif fault["type"] == "missing":
            faults[name] = f"{name} is missing and has no default"
        else:
            faults[name] = f"{name}={_shown(fault['input'])}: {_allowed(schema.get(name, {})) or what}"
    return faults.values()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _allowed(schema: Mapping[str, Any]) -> str:
    """Say which values there are; empty where the check itself says what is wrong."""
    match schema:
        case {"enum": [*words]}:
            return f"give {' or '.join(word or 'nothing' for word in words)}"
        case {"const": word}:
            return f"only {word} is known here"
        case {"type": "boolean"}:
            return "give true or false"
        case {"type": kind, "minimum": least, "maximum": most}:
            return f"give a {'whole number' if kind == 'integer' else 'number'} from {least} to {most}"
    return ""


def alike(name: str, known: Sequence[str]) -> list[str]:
    """Return what was probably meant. It takes some milliseconds."""
    return difflib.get_close_matches(name[:100], known, n=2, cutoff=0.7)


def _instead(name: str, known: Sequence[str]) -> str:
    likely = alike(name, known)
    return f"; did you mean {' or '.join(likely)}?" if likely else f" (known: {', '.join(known)})"
