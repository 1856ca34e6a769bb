"""The lists of judges only grow."""

import pytest

from tests.foreign import judge
from tests.foreign.judge import Judge, Said, Verdict

LIST = """\
# how this list is read
kept: passes
a::b[1: x]: fails: no groups yet
left: skips: needs a terminal
slow: varies: the machine decides
"""
PASSES = Said(Verdict.PASSES)
AS_LISTED = {
    "kept": PASSES,
    "a::b[1: x]": Said(Verdict.FAILS, "boom"),
    "left": Said(Verdict.SKIPS, "no tty"),
    "slow": PASSES,
}


@pytest.fixture
def listed(tmp_path, monkeypatch):
    (tmp_path / "some.txt").write_text(LIST)
    monkeypatch.setattr(judge, "_LISTS", tmp_path)
    monkeypatch.setattr(judge, "SAID", tmp_path / "said")
    return Judge("some")


def test_what_is_as_listed_is_right_and_is_written_down_with_the_reasons_of_the_list(listed, tmp_path, capsys):
    listed.check(AS_LISTED)
    assert (tmp_path / "said" / "some.txt").read_text() == LIST.partition("\n")[2]
    assert capsys.readouterr().out == "some: 2 passes, 1 fails, 1 skips, of 4\n"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"kept": Said(Verdict.FAILS, "lost\n a record")}, "kept: fails: lost a record; it is listed as: passes"),
        ({"kept": Said(Verdict.SKIPS, "no tool")}, "kept: skips: no tool; it is listed as: passes"),
        ({"a::b[1: x]": PASSES}, "a::b[1: x]: passes; move it up, it was listed as: fails: no groups yet"),
        ({"left": PASSES}, "left: passes; move it up, it was listed as: skips: needs a terminal"),
        ({"left": Said(Verdict.FAILS, "x")}, "left: fails: x; it is listed as: skips: needs a terminal"),
        ({"new": PASSES}, "new: passes; add a line"),
    ],
)
def test_what_differs_is_a_failure(listed, change, difference):
    with pytest.raises(AssertionError, match=r"1 differ from some\.txt") as failure:
        listed.check({**AS_LISTED, **change})
    assert str(failure.value).endswith("\n" + difference)


def test_what_did_not_run_is_a_failure_unless_it_was_not_asked_for(listed):
    with pytest.raises(AssertionError, match="left: is listed, and did not run"):
        listed.check({name: said for name, said in AS_LISTED.items() if name not in ("left", "slow")})
    listed.check({"kept": PASSES}, asked=["kept"])


@pytest.mark.parametrize("line", ["no verdict", "x: fails", "x: fails: ", "x: works"])
def test_a_line_that_says_nothing_is_refused(listed, tmp_path, line):
    (tmp_path / "some.txt").write_text(line)
    with pytest.raises(ValueError, match="is no line of a list"):
        Judge("some")
