"""The alert rules: they are sound, fire when they should, and go by metrics that there are and pages that there are."""

import json
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
SITE = "https://docs.example.net/replog/"  # as docs/metrics.md says, and what an operator replaces
DASHBOARD = ROOT / "deploy" / "grafana" / "replog.json"
NAME = re.compile(r"\b(?:kafka|replog|process)_\w+")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian's prometheus) is not installed")
@pytest.mark.parametrize("words", [("check", "rules", RULES.name), ("test", "rules", "replog.rules.test.yml")])
def test_the_rules_are_sound_and_fire_when_they_should(words):
    done = subprocess.run(["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tried():
    tests = yaml.safe_load((RULES.parent / "replog.rules.test.yml").read_text())["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert fired == {alert["alert"] for alert in ALERTS}


def test_each_picture_of_the_dashboard_goes_by_documented_metrics_and_has_a_place_of_its_own():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels) > 10
    text = DOCUMENT.read_text()
    for panel in panels:
        for target in panel["targets"]:
            names = NAME.findall(target["expr"])
            assert names, target
            assert all(f"`{name}" in text for name in names), target


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_a_rule_goes_by_documented_metrics_and_says_what_to_do(alert):
    text = DOCUMENT.read_text()
    for name in NAME.findall(alert["expr"]):
        assert f"`{name}" in text, name
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page == f"{SITE}{DOCUMENT.stem}.html"
    assert f"`{SITE}`" in text
    headings = {re.sub(r"[^\w-]", "", head.lower().replace(" ", "-")) for head in re.findall(r"^### (.*)$", text, re.M)}
    assert anchor in headings
