"""What processes log."""

import subprocess
import sys

from replog.server.logging import LINES, tell_each


def test_what_happens_to_many_at_once_is_a_few_lines_and_how_many_more_there_are():
    lines: list[tuple[str, dict[str, object]]] = []

    def tell(event: str, **details: object) -> None:
        lines.append((event, details))

    rows = [{"partition": f"t-{number}"} for number in range(LINES + 990)]
    tell_each(tell, "leading", rows[:LINES])
    assert lines == [("leading", row) for row in rows[:LINES]]
    lines.clear()
    tell_each(tell, "leading", rows)
    assert lines == [*(("leading", row) for row in rows[:LINES]), ("leading: more of them", {"count": 990})]


def test_a_command_says_warnings_as_sentences_and_nothing_else():
    script = (
        "import logging, structlog; from replog.server.logging import configure_command; configure_command()\n"
        "logging.getLogger('a').info('not said'); logging.getLogger('a').warning('no metadata: %s', 'why')\n"
        "structlog.get_logger().warning('slow', count=2)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "warning: no metadata: why\nwarning: slow count=2\n")
