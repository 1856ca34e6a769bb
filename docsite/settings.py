"""Keeps docs/settings.md true: `python -m docsite.settings` writes names, defaults and values from `replog/config`.
The meaning of a setting, in the last column, is written by hand, and stays.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from replog.config.processes import (
    AlterableBrokerConfig,
    BrokerConfig,
    ClientQuota,
    ClientSecurity,
    ControllerConfig,
    ServerConfig,
)
from replog.config.properties import MAX_INT, MAX_LONG
from replog.config.settings import Settings
from replog.config.topic import TopicConfig

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_TABLES: dict[str, tuple[tuple[type[Settings], ...], tuple[type[Settings], ...]]] = {  # settings of these, not of those
    "topics": ((TopicConfig,), ()),
    "brokers": ((BrokerConfig,), (ServerConfig, AlterableBrokerConfig)),
    "running": ((AlterableBrokerConfig,), ()),
    "controllers": ((ControllerConfig,), (ServerConfig,)),
    "servers": ((ServerConfig,), (ClientSecurity,)),
    "clients": ((ClientSecurity,), ()),
    "quotas": ((ClientQuota,), ()),
}
_TABLE = r"(?<=<!-- {} -->\n\n).*?(?=\n\n|\n*\Z)"
_ROW = re.compile(r"^\| `([\w.]+)` \| .* \| (.*) \|$", re.M)
_UNITS = {
    "ms": ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")),
}
_LARGEST = {MAX_INT: "2^31−1", MAX_LONG: "2^63−1"}


def updated(text: str) -> str:
    """Returns the document as it should be. A new setting has an empty meaning."""
    for name, (models, others) in _TABLES.items():
        place = re.compile(_TABLE.format(name), re.S)
        old = place.search(text)
        if not old:
            raise ValueError(f"docs/settings.md has no place <!-- {name} -->")
        table = _table(models, others, dict(_ROW.findall(old[0])))
        text = text[: old.start()] + table + text[old.end() :]
    return text


def meanings(text: str) -> list[tuple[str, str]]:
    """Returns every setting in the document, with its meaning."""
    return _ROW.findall(text)


def _table(models: Iterable[type[Settings]], others: Iterable[type[Settings]], meanings: Mapping[str, str]) -> str:
    left_out = {name for other in others for name in other.model_fields}
    rows = ["| Setting | Default; values | |", "|---|---|---|"]
    for model in models:
        schema = model.model_json_schema()["properties"]
        for field, about in model.model_fields.items():
            if field in left_out:
                continue
            name = about.alias or field
            default = "must be given" if about.is_required() else _default(name, about.default)
            both = "; ".join(filter(None, (default, _values(schema[name]))))
            rows.append(f"| `{name}` | {both} | {meanings.get(name, '')} |")
    return "\n".join(rows)


def _default(name: str, value: Any) -> str:
    if value in ("", None, ()) or value == Path():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if value in _LARGEST:
        return _LARGEST[value]
    return f"{value}{_in_words(name, value)}"


def _in_words(name: str, value: Any) -> str:
    """Returns a form such as ` (7 days)` if that is easier to read; otherwise nothing."""
    unit = "ms" if name.endswith(".ms") else "bytes" if name.endswith((".bytes", ".size")) else ""
    for size, word in _UNITS.get(unit, ()):
        if value >= size and value % size == 0:
            count = value // size
            return f" ({count} {word}{'s' if unit == 'ms' and count > 1 else ''})"
    return ""


def _values(schema: Mapping[str, Any]) -> str:
    """Returns the values that fit; nothing for text, true and false."""
    match schema:
        case {"enum": [*words]}:
            return ", ".join(f"`{word}`" for word in words if word)
        case {"const": word}:
            return f"`{word}`"
        case {"minimum": least, "maximum": most}:
            return f"from {least}" if most in _LARGEST else f"{least} to {most}"
    return ""


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text()))
