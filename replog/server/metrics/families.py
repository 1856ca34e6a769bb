"""A family that has a value for each of several things."""

from collections.abc import Mapping
from typing import Any, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

F = TypeVar("F", GaugeMetricFamily, CounterMetricFamily)


def labelled(family: type[F], name: str, text: str, label: str, values: Mapping[Any, float]) -> F:
    made = family(name, text, labels=(label,))
    for thing, value in values.items():
        made.add_metric((str(thing),), value)
    return made
