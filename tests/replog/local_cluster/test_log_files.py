"""What a command says of a process that ended."""

import pytest

from replog.local_cluster.log_files import why_ended

LINE = '{"reason": "a word", "event": "broker failed", "level": "error", "timestamp": "2026-11-28T15:57:00Z"}'


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([LINE, "error: port 9 is in use"], "port 9 is in use"),
        (
            [LINE, "Traceback (most recent call last):", "ModuleNotFoundError: No module named 'x'"],
            "ModuleNotFoundError",
        ),
        ([LINE], "without a word"),
        (["2026-11-28T15:57:00.1Z [info     ] closing logs   count=1"], "without a word"),
        ([], "without a word"),
    ],
)
def test_a_process_that_ended_is_told_in_its_last_words_and_not_by_lines_of_its_log(tmp_path, lines, told):
    path = tmp_path / "broker.log"
    path.write_text("\n".join(lines))
    assert why_ended(path).startswith(told)
    assert why_ended(path).endswith(f" (log: {path})")
