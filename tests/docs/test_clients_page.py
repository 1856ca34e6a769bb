"""What docs/clients.md has for users' own tests, run by pytest as it stands."""

import subprocess
import sys

import pytest

from tests.docs.tree import blocks


@pytest.mark.processes
def test_the_recipe_for_tests_works(tmp_path):
    (recipe,) = blocks("docs/clients.md", "Testing your application")
    (tmp_path / "test_app.py").write_text(recipe.removeprefix("python - <<'END'\n").removesuffix("END"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_app.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout, run.stdout
