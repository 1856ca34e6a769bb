"""Families of metrics: a value for each of several things, and durations as quantiles."""

from collections.abc import Iterator, Mapping
from math import ceil, log
from typing import Any, Final, Literal, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

F = TypeVar("F", GaugeMetricFamily, CounterMetricFamily)


WINDOW_S = 60.0
STEP = 1.05  # the ratio of a bucket to the one before
LEAST_MS = 0.01
BUCKETS = 400  # reach 57 minutes
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)  # Kafka's
_PER_STEP: Final = 1 / log(STEP)


def gauges(prefix: str, *rows: tuple[str, str, float]) -> Iterator[Metric]:
    """Yields a gauge for each row of a name, a help text and a value."""
    for name, text, value in rows:
        yield GaugeMetricFamily(prefix + name, text, value=value)


def labelled(family: type[F], name: str, text: str, label: str, values: Mapping[Any, float]) -> F:
    made = family(name, text, labels=(label,))
    for thing, value in values.items():
        made.add_metric((str(thing),), value)
    return made


class Times:
    """Quantiles of durations in the last one to two minutes, within 5 %, in fixed memory."""

    def __init__(self) -> None:
        self.count, self.sum_ms = 0, 0.0
        self._now = [0] * BUCKETS
        self._before = self._now
        self._until_s = 0.0  # when `_now` becomes `_before`

    def add(self, ms: float, now_s: float) -> None:
        """Take in a duration. `now_s` is monotonic."""
        self._turn(now_s)
        self.count += 1
        self.sum_ms += ms
        self._now[min(BUCKETS - 1, ceil(log(ms / LEAST_MS) * _PER_STEP)) if ms > LEAST_MS else 0] += 1

    def _turn(self, now_s: float) -> None:
        if now_s >= self._until_s:
            is_next = now_s < self._until_s + WINDOW_S
            self._before = self._now if is_next else [0] * BUCKETS
            self._now = [0] * BUCKETS
            self._until_s = now_s + WINDOW_S

    def quantiles(self, now_s: float) -> list[float]:
        """Return the duration at each of `QUANTILES`, in ms; 0 if there were none."""
        self._turn(now_s)
        counts = [now + before for now, before in zip(self._now, self._before, strict=True)]
        total, reached, bucket = sum(counts), 0, 0
        values = []
        for quantile in QUANTILES:
            while reached < quantile * total:
                reached += counts[bucket]
                bucket += 1
            values.append(LEAST_MS * STEP ** (bucket - 1) if total else 0.0)
        return values


def shown(
    name: str,
    help_text: str,
    times: Mapping[tuple[str, ...], Times],
    now_s: float,
    labels: tuple[str, ...] = (),
    unit: Literal["ms", "s"] = "ms",
) -> Metric:
    """Return a summary of `times`, whose keys are the values of `labels`."""
    family = Metric(name, f"{help_text}, {unit}", "summary")
    scale = 1 if unit == "ms" else 1000
    for values_of_labels, measured in times.items():
        known = dict(zip(labels, values_of_labels, strict=True))
        for quantile, ms in zip(QUANTILES, measured.quantiles(now_s), strict=True):
            family.add_sample(name, known | {"quantile": str(quantile)}, ms / scale)
        family.add_sample(f"{name}_count", known, measured.count)
        family.add_sample(f"{name}_sum", known, measured.sum_ms / scale)
    return family
