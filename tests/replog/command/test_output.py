"""How listings are printed."""

import json

import pytest

from replog.command.ending import tell
from replog.command.output import PAGE, Format, harmless, note, print_rows, progress


def test_a_long_listing_comes_in_tables_of_a_thousand_rows_and_json_in_one_piece(capsys):
    rows = [{"number": number} for number in range(2 * PAGE + 1)]
    print_rows(rows, {"number": "the number"}, Format.TABLE)
    out = capsys.readouterr().out
    assert out.count("the number") == 3
    assert [int(word) for word in out.split() if word.isdigit()] == list(range(2 * PAGE + 1))
    print_rows(rows, {"number": "the number"}, Format.JSON)
    assert json.loads(capsys.readouterr().out) == rows


def test_progress_is_told_by_the_mebibyte(capsys, monkeypatch):
    monkeypatch.setattr("replog.command.output.PRINT_EVERY_S", 0.0)
    with progress(3 << 20) as on_bytes:
        for size in (1000, 1 << 20, 1000, 2 << 20):
            on_bytes(size)
    assert capsys.readouterr().err.splitlines() == ["1.0 MB of 3.1 MB", "3.1 MB of 3.1 MB"]


def test_there_are_colours_on_a_terminal_unless_they_are_not_wanted(capsys, monkeypatch):
    row = [{"state": "fenced", "leader": -1}]
    columns = {"state": "state", "leader": "leader"}
    for environment, coloured in (({}, False), ({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False)):
        with monkeypatch.context() as patch:
            for name in ("FORCE_COLOR", "NO_COLOR"):
                patch.delenv(name, raising=False)
            patch.setenv("TERM", "xterm-256color")
            for name, value in environment.items():
                patch.setenv(name, value)
            print_rows(row, columns, Format.TABLE)
        assert ("\x1b[1;31mfenced" in capsys.readouterr().out) is coloured, environment


def test_tables_say_bytes_in_units_and_json_as_numbers(capsys):
    rows = [{"size": 71_357_739_008, "usable_bytes": -1}, {"size": 22_900, "usable_bytes": 7}]
    print_rows(rows, {"size": "size", "usable_bytes": "usable bytes"}, Format.TABLE)
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines()[2:]] == [["71.4", "GB", "-"], ["22.9", "kB", "7", "B"]]
    print_rows(rows, {"size": "size"}, Format.JSON)
    assert json.loads(capsys.readouterr().out) == rows


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("t-0", "t-0"),
        ("größe", "größe"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\rb\u202e", "a\\rb\\u202e"),
        ("\udcff", "\\udcff"),  # a byte that is no UTF-8
        ("two\nlines\tof it", "two\nlines\tof it"),
    ],
)
def test_what_a_terminal_would_obey_or_cannot_show_is_escaped(name, shown, capsys):
    assert harmless(name) == shown
    note(name)
    tell("error", name, 1)
    print_rows([{"file": name}], {"file": "FILE"}, Format.TABLE)
    seen = capsys.readouterr()
    for text in (seen.out, seen.err):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert seen.err == f"{shown}\nerror: {shown}\n"
