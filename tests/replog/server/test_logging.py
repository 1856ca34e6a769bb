"""What processes log."""

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
