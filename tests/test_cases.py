"""The random cases of a test are the same, whatever else was imported."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import SOAK


def drawn() -> list[tuple[int, bytes, str]]:
    cases = []

    @settings(max_examples=200)
    @given(st.integers(), st.binary(max_size=8), st.text(max_size=8))
    def draw(number: int, data: bytes, text: str) -> None:
        cases.append((number, data, text))

    draw()
    return cases


@pytest.mark.skipif(bool(SOAK), reason="REPLOG_SOAK draws by chance")
def test_cases_do_not_depend_on_the_modules_that_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = drawn()
    path = tmp_path / "a_module_with_constants.py"
    path.write_text("NUMBERS = [" + ", ".join(str(7_000_003 * n) for n in range(300)) + "]\n")
    spec = importlib.util.spec_from_file_location("a_module_with_constants", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "a_module_with_constants", module)
    spec.loader.exec_module(module)
    after = drawn()
    assert len(before) > 100
    assert after == before


def test_no_case_has_a_deadline():
    assert settings().deadline is None
