"""The promise of every set of settings: names and values are checked once at the door and stored in one notation, and
what is stored already is read without harm, whatever version wrote it (divergence 52)."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from replog.errors import ErrorCode

_LOOKS = 3  # so many wrong names are answered with a better one
_SHOWN = 60  # characters of a wrong value, at most
_NOTATIONS: dict[object, re.Pattern[str]] = {  # Kafka takes what Java reads; Python reads more
    int: re.compile(r"\s*[+-]?[0-9]+\s*"),
    float: re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"),
    bool: re.compile(r"\s*(true|false)\s*", re.IGNORECASE),
}


class Settings(BaseModel):
    """A frozen set of properties; fields are `dotted_names` with the dots replaced by underscores."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, alias_generator=lambda name: name.replace("_", ".")
    )
    when_unreadable: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # replace a setting that cannot be read

    @field_validator("*", mode="before")
    @classmethod
    def _written(cls, value: Any, info: ValidationInfo) -> Any:
        notation = _NOTATIONS.get(cls.model_fields[info.field_name or ""].annotation)
        if info.context and isinstance(value, str) and notation and not notation.fullmatch(value):
            raise PydanticCustomError("notation", "Kafka does not take it")
        return value.strip() if notation is _NOTATIONS[bool] and isinstance(value, str) else value

    @classmethod
    def parse(cls, properties: Mapping[str, Any], source: str, *, as_in_kafka: bool = False) -> Self:
        """Check `properties` (from `source`, named in errors), whose names are Kafka's. `as_in_kafka`: and so are the
        notations of values, without `yes` or `1_000`.

        Raises INVALID_CONFIG naming every bad setting."""
        try:
            return cls.model_validate(properties, by_alias=True, by_name=False, context=as_in_kafka)
        except ValidationError as error:
            faults = "; ".join(_faults(cls, error))
            raise ErrorCode.INVALID_CONFIG.error(f"{source}: {faults}") from None

    @classmethod
    def canonical(cls, properties: Mapping[str, str], source: str, *, as_in_kafka: bool = False) -> dict[str, str]:
        """Return the text of each parsed value, as it is stored. Raises as `parse`."""
        parsed = cls.parse(properties, source, as_in_kafka=as_in_kafka)
        given = parsed.model_dump(by_alias=True, mode="json", exclude_unset=True)
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
            allowed = "" if fault["type"] == "value_error" else _allowed(schema.get(name, {}))
            faults[name] = f"{name}={_shown(fault['input'])}: {allowed or what}"
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
