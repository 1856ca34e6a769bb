"""The table as bars, in SVG: a panel for each line, medians, and a thin line from the lowest to the highest round."""

import statistics
from html import escape

from benchmarks.peers.table import LINES, Rounds, form, values

_COLOURS = ("#2a6fbb", "#8fb8e0", "#d1603d", "#4a9d6f", "#8a8a8a")
_COLUMNS, _WIDTH, _BAR = 3, 340, 16
_NAMES, _BARS = 80, 190  # where names end, and how long the longest bar is


def picture(report: Rounds) -> str:
    height = (len(report) + 2) * _BAR
    panels = [
        f'<g transform="translate({number % _COLUMNS * _WIDTH + 10},{number // _COLUMNS * height + 20})">{panel}</g>'
        for number, panel in enumerate(_panel(report, number) for number in range(len(LINES)))
    ]
    size = f"{_COLUMNS * _WIDTH + 20} {-(-len(LINES) // _COLUMNS) * height + 20}"
    style = "<style>text{font:11px sans-serif;fill:#222}.title{font-weight:bold}.name{text-anchor:end}</style>"
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">', style, background, *panels, "</svg>\n"]
    )


def _panel(report: Rounds, number: int) -> str:
    label, row, pick = LINES[number]
    of_systems = {system: values(rounds, row, pick) for system, rounds in report.items()}
    longest = max((max(of_rounds) for of_rounds in of_systems.values() if of_rounds), default=1.0)
    parts = [f'<text class="title">{escape(label)}</text>']
    for place, ((system, of_rounds), colour) in enumerate(zip(of_systems.items(), _COLOURS, strict=False), start=1):
        if not of_rounds:
            continue
        y = place * _BAR
        lowest, median, highest = (
            value / longest * _BARS for value in (min(of_rounds), statistics.median(of_rounds), max(of_rounds))
        )
        parts += [
            f'<text class="name" x="{_NAMES - 4}" y="{y}">{escape(system)}</text>',
            f'<rect x="{_NAMES}" y="{y - 9}" width="{median:.1f}" height="10" fill="{colour}"/>',
            f'<line x1="{_NAMES + lowest:.1f}" x2="{_NAMES + highest:.1f}" y1="{y - 4}" y2="{y - 4}" stroke="#222"/>',
            f'<text x="{_NAMES + highest + 4:.1f}" y="{y}">{form(statistics.median(of_rounds))}</text>',
        ]
    return "".join(parts)
