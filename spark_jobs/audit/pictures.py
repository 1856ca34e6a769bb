"""The report's plots, as SVG for the page. Pure.

Colours and fonts come from the page's style sheet by class. The shape of a mark shows its kind, too.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

from spark_jobs.audit.text import number, printable
from spark_jobs.replicas.faults import UNREADABLE

WIDTH, LEFT, RIGHT = 960, 118, 136  # the width of a plot, and of its labels on each side, in pixels at full size
_APART = 14  # finding marks closer than this are drawn as one
_Scale = Callable[[float], float]  # maps an offset to x


@dataclass(frozen=True)
class Lag:
    """One replica's place in its partition, in offsets behind the furthest log end; None: not known."""

    replica: int
    behind: int
    mark_behind: int | None


@dataclass(frozen=True)
class Mark:
    """The offsets of a finding in one replica. `blamed`: this replica is most likely wrong, or may be."""

    finding: int
    kind: str
    first: int
    last: int
    blamed: bool
    listed: bool = True  # the page has a row of the finding, to which the mark links


@dataclass(frozen=True)
class Lane:
    """One replica of a partition: its log, its high watermark, its epochs and its findings."""

    replica: int
    log_start: int
    log_end: int
    mark: int | None
    epochs: tuple[tuple[int, int], ...]
    findings: tuple[Mark, ...]
    held: bool = True  # False: the replica has no known log


def lag_plot(partitions: Sequence[tuple[str, Sequence[Lag]]]) -> Markup:
    """Draw how far each replica, and its high watermark, is behind the furthest log end; the axis is logarithmic."""
    lane, head, gap = 20, 24, 30
    height = 32 + sum(gap + lane * len(lags) for _, lags in partitions)
    furthest = max((max(lag.behind, lag.mark_behind or 0) for _, lags in partitions for lag in lags), default=0)
    span = math.log10(1 + max(furthest, 9))

    def x(behind: int) -> float:
        return WIDTH - RIGHT - (WIDTH - LEFT - RIGHT) * math.log10(1 + behind) / span

    svg = _picture(height, f"Lag of the replicas of {len(partitions)} partitions")
    powers = [0, *(10**n for n in range(int(span) + 1))]
    for tick in powers if len(powers) < 9 else powers[:1] + powers[1::2]:
        _add(svg, "line", x1=x(tick), x2=x(tick), y1=head - 6, y2=height - 6, class_="grid")
        _add(svg, "text", f"−{number(tick)}" if tick else "furthest", x=x(tick), y=14, class_="tick", anchor="middle")
    y = head
    for name, lags in partitions:
        _add(svg, "text", _short(name, 60), x=4, y=y + 22, class_="name", title=name)
        y += gap
        for lag in lags:
            middle = y + lane / 2
            where = f"replica {lag.replica}"
            _add(svg, "text", where, x=LEFT - 10, y=middle + 4, class_="lane", anchor="end")
            title = f"{name}, {where}: log end {number(lag.behind)} behind the furthest, high watermark " + (
                "unknown" if lag.mark_behind is None else f"{number(lag.mark_behind)} behind it"
            )
            group = _add(svg, "g", class_="lag", title=title)
            at, end = x(lag.behind), x(0)
            _add(group, "line", x1=LEFT, x2=at, y1=middle, y2=middle, class_="log")
            if lag.behind:
                _add(group, "rect", x=at, y=middle - 6, width=max(end - at, 1), height=12, class_="lacks")
            if lag.mark_behind is not None:
                _watermark(group, x(lag.mark_behind), middle)
            _add(group, "circle", cx=at, cy=middle, r=5, class_="end")
            text = f"{number(lag.behind)} behind" if lag.behind else "at the end"
            _add(svg, "text", text, x=WIDTH - RIGHT + 14, y=middle + 4, class_="tick")
            y += lane
    return _markup(svg)


def divergence_plot(name: str, lanes: Sequence[Lane], window: tuple[int, int] | None = None) -> Markup:
    """Draw each replica's log over the offsets, with its bounds, epochs and findings; `window`: these offsets only."""
    low, high = window or bounds(lanes)
    step, head = 46, 30
    height = head + step * len(lanes) + 8

    def x(offset: float) -> float:
        inside = min(max(offset, low), high)
        return LEFT + (WIDTH - LEFT - RIGHT) * (inside - low) / max(high - low, 1)

    svg = _picture(height, f"{name}: the replicas' logs and findings, offsets {number(low)} to {number(high)}")
    for tick in ticks(low, high):
        _add(svg, "line", x1=x(tick), x2=x(tick), y1=head - 8, y2=height - 4, class_="grid")
        _add(svg, "text", number(tick), x=x(tick), y=14, class_="tick", anchor="middle")
    for row, lane in enumerate(lanes):
        middle = head + step * row + step / 2 + 4
        _add(svg, "text", f"replica {lane.replica}", x=LEFT - 10, y=middle + 4, class_="lane", anchor="end")
        if not lane.held:
            _add(svg, "text", "no log here", x=WIDTH - RIGHT + 14, y=middle + 4, class_="tick")
        else:
            _log(svg, lane, middle, x, (low, high))
        for marks in _clusters(lane.findings, x, (low, high)):
            _finding(svg, lane, marks, middle, x)
    return _markup(svg)


def bounds(lanes: Sequence[Lane]) -> tuple[int, int]:
    """Return the offsets that a plot must show: logs, high watermarks and findings."""
    held = [lane for lane in lanes if lane.held]
    marks = [mark for lane in lanes for mark in lane.findings]
    low = min([*(lane.log_start for lane in held), *(mark.first for mark in marks)], default=0)
    ends = [*(lane.log_end for lane in held), *(lane.mark or 0 for lane in held), *(mark.last + 1 for mark in marks)]
    return low, max([low + 1, *ends])


def close_up(lanes: Sequence[Lane]) -> tuple[int, int] | None:
    """Return a window around the findings if it has less than a quarter of the whole plot; otherwise None."""
    low, high = bounds(lanes)
    marks = [mark for lane in lanes for mark in lane.findings]
    if not marks:
        return None
    first, last = min(mark.first for mark in marks), max(mark.last for mark in marks) + 1
    around = max((last - first) // 2, 4)
    window = max(low, first - around), min(high, last + around)
    return window if window[1] - window[0] < (high - low) / 4 else None


def ticks(low: int, high: int) -> list[int]:
    """Return up to nine round numbers in the range."""
    rough = max((high - low) / 6, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(int(power * m) for m in (1, 2, 5, 10) if power * m >= rough)
    return list(range(-(-low // step) * step, high + 1, step))


def initials(kind: str) -> str:
    """Return the initials of a class, as in `COMMITTED_LOSS` → `CL`."""
    return "".join(word[:1] for word in kind.split("_"))


def family(kind: str) -> str:
    """Return the colour group of a class: data, lie (of an index or checkpoint), or unread."""
    return "unread" if kind == UNREADABLE else "lie" if kind.endswith("_LIE") else "data"


# -- the parts of a divergence plot


def _log(svg: ElementTree.Element, lane: Lane, middle: float, x: _Scale, window: tuple[int, int]) -> None:
    mark = "unknown" if lane.mark is None else number(lane.mark)
    title = (
        f"replica {lane.replica}: log start {number(lane.log_start)}, high watermark {mark}, "
        f"log end {number(lane.log_end)}"
    )
    group = _add(svg, "g", title=title)
    _add(svg, "text", f"{number(lane.log_start)} –", x=WIDTH - RIGHT + 14, y=middle - 3, class_="tick")
    _add(svg, "text", number(lane.log_end), x=WIDTH - RIGHT + 14, y=middle + 11, class_="tick")
    if lane.log_end <= window[0] or lane.log_start >= window[1]:
        return
    for nth, (epoch, start, end) in enumerate(_epochs(lane)):
        at, width = x(start), x(end) - x(start)
        if width <= 0:
            continue
        part = _add(group, "rect", x=at, y=middle - 7, width=width, height=14, class_=f"epoch shade{nth % 2}")
        if epoch is None:
            continue
        _add(part, "title", f"replica {lane.replica}, epoch {epoch}: offsets {number(start)} to {number(end - 1)}")
        if width > 9 + 7 * len(str(epoch)):
            _add(group, "text", f"e{epoch}", x=at + 4, y=middle + 4, class_="epochs")
    if lane.log_start >= window[0]:
        _bracket(group, x(lane.log_start), middle, 6)
    if lane.log_end <= window[1]:
        _bracket(group, x(lane.log_end), middle, -6)
    if lane.mark is not None and window[0] <= lane.mark <= window[1]:
        _watermark(group, x(lane.mark), middle + 3)


def _epochs(lane: Lane) -> Iterator[tuple[int | None, int, int]]:
    """Yield the epoch, start and end of each part of the log; None if the checkpoint does not say the epoch."""
    at = lane.log_start
    entries = [entry for entry in lane.epochs if entry[1] < lane.log_end]
    for (epoch, start), (_, end) in zip(entries, [*entries[1:], (0, lane.log_end)], strict=False):
        if at < start:
            yield None, at, start
        yield epoch, max(start, at), max(end, at)
        at = max(end, at)
    if at < lane.log_end:
        yield None, at, lane.log_end


def _clusters(marks: Sequence[Mark], x: _Scale, window: tuple[int, int]) -> list[list[Mark]]:
    """Return the marks in the window; those that are too close are joined, so that a lane stays readable."""
    clusters: list[list[Mark]] = []
    reach = -math.inf
    for mark in sorted(marks, key=lambda m: (m.first, m.last)):
        if mark.last < window[0] or mark.first >= window[1]:
            continue
        if clusters and x(mark.first) < reach + _APART:
            clusters[-1].append(mark)
        else:
            clusters.append([mark])
        reach = max(reach, x(mark.last + 1))
    return clusters


def _finding(svg: ElementTree.Element, lane: Lane, marks: list[Mark], middle: float, x: _Scale) -> None:
    """Draw a box over the offsets: filled if the replica is blamed, hollow if it is only compared with."""
    first, last = min(mark.first for mark in marks), max(mark.last for mark in marks)
    at, width = x(first), max(x(last + 1) - x(first), 5)
    blamed = any(mark.blamed for mark in marks)
    lead = next((mark for mark in marks if mark.blamed), marks[0])
    kinds = ", ".join(dict.fromkeys(mark.kind for mark in marks))
    count = f"{len(marks)} findings" if len(marks) > 1 else f"finding {lead.finding}"
    title = f"{count}: {kinds}, replica {lane.replica}, offsets {number(first)} to {number(last)}"
    title += "" if blamed else " (involved, not blamed)"
    link = _add(svg, "a", title=title, aria_label=title)
    if lead.listed:
        link.set("href", f"#finding-{lead.finding}")
    style = f"mark {family(lead.kind)}{' blamed' if blamed else ''}"
    _add(link, "rect", x=at, y=middle - 11, width=width, height=22, rx=2, class_=style)
    label = initials(lead.kind) + (f"+{len(marks) - 1}" if len(marks) > 1 else "")
    _add(link, "text", label, x=at + width / 2, y=middle - 15, class_=f"code {family(lead.kind)}", anchor="middle")


def _bracket(parent: ElementTree.Element, at: float, middle: float, tail: int) -> None:
    points = f"{at + tail:.1f},{middle - 10:.1f} {at:.1f},{middle - 10:.1f} {at:.1f},{middle + 10:.1f} "
    _add(parent, "polyline", points=f"{points}{at + tail:.1f},{middle + 10:.1f}", class_="bound")


def _watermark(parent: ElementTree.Element, at: float, middle: float) -> None:
    """Draw a wedge from below, with a stem."""
    _add(parent, "line", x1=at, x2=at, y1=middle - 10, y2=middle + 8, class_="watermark")
    corners = f"{at:.1f},{middle + 5:.1f} {at - 4.5:.1f},{middle + 13:.1f} {at + 4.5:.1f},{middle + 13:.1f}"
    _add(parent, "polygon", points=corners, class_="watermark")


# -- SVG


def _picture(height: float, label: str) -> ElementTree.Element:
    svg = ElementTree.Element("svg", {"viewBox": f"0 0 {WIDTH} {height:g}", "role": "group"})
    svg.set("aria-label", printable(label))
    return svg


def _add(
    parent: ElementTree.Element, tag: str, text: str = "", *, title: str = "", **attributes: str | float
) -> ElementTree.Element:
    """Add a child; `class_` and `anchor` stand for `class` and `text-anchor`, underscores for dashes."""
    names = {"class_": "class", "anchor": "text-anchor"}
    element = ElementTree.SubElement(
        parent,
        tag,
        {
            names.get(name, name.replace("_", "-")): printable(value) if isinstance(value, str) else f"{value:.1f}"
            for name, value in attributes.items()
        },
    )
    if title:
        ElementTree.SubElement(element, "title").text = printable(title)
        if text:
            element[-1].tail = printable(text)
    elif text:
        element.text = printable(text)
    return element


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _markup(svg: ElementTree.Element) -> Markup:
    return Markup(ElementTree.tostring(svg, encoding="unicode"))  # the tree escapes its texts
