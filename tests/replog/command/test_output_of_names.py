"""Names from disks may be anybody's: a terminal must not obey them."""

import pytest

from replog.command.ending import tell
from replog.command.output import Format, harmless, note, print_rows


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
