"""The alert rules: they are sound, fire when they should, and go by metrics that there are and pages that there are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "replog.rules.yml"
DOCUMENT = ROOT / "docs" / "metrics.md"
ALERTS = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
NAME = re.compile(r"\b(?:kafka|replog)_\w+")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian's prometheus) is not installed")
@pytest.mark.parametrize("words", [("check", "rules", RULES.name), ("test", "rules", "replog.rules.test.yml")])
def test_the_rules_are_sound_and_fire_when_they_should(words):
    done = subprocess.run(["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_a_rule_goes_by_documented_metrics_and_says_what_to_do(alert):
    text = DOCUMENT.read_text()
    for name in NAME.findall(alert["expr"]):
        assert f"`{name}" in text, name
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert ROOT / page == DOCUMENT
    headings = {re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")) for head in re.findall(r"^### (.*)$", text, re.M)}
    assert anchor in headings
