"""Every `replog …` command that a document or a comment in deploy/ shows is one that the command line accepts."""

import re
import shlex

import pytest

from tests.deploy.commands import parse
from tests.docs.tree import DOCUMENTS, ROOT

FILES = [*DOCUMENTS, "deploy/compose.yaml", "deploy/compose-secured.yaml"]
_GROUP = re.compile(r"(audit|cluster|log|topic)?( --help)?")


def shown(path: str) -> list[str]:
    """What follows `replog` in code spans, after a prompt, behind a pipe, or in a comment."""
    text = (ROOT / path).read_text()
    commands = re.findall(r"`replog ([^`]+)`", text)
    for line in re.findall(r"^(?:\$|#) (.*\breplog .*)", text, re.M):
        commands += re.findall(r"(?:^|[|(] ?|broker-1 )replog ([^|)]+)", line)
    return [re.split(r" (?:\d?>|&)", command)[0].strip() for command in commands]  # without redirections


def test_commands_are_found():
    assert len(shown("README.md")) >= 10
    assert shown("deploy/compose.yaml")


@pytest.mark.parametrize("path", FILES)
def test_shown_commands_are_accepted(path):
    for command in shown(path):
        if _GROUP.fullmatch(command) or command.endswith("--help"):
            continue
        words = shlex.split(command)
        while words and set(words[-1]) <= {"…", "."}:
            words.pop()
        parse(words)


def test_the_table_of_kafkas_commands_leads_to_commands_that_exist():
    """Those are parsed above. A row without one leads to a page, or says what there is instead."""
    rows = re.findall(r"^\| (`kafka-.*) \| (.*) \|$", (ROOT / "docs/divergences.md").read_text(), re.M)
    named = {name for kafka, _ in rows for name in re.findall(r"`(kafka-[a-z-]+\.sh)", kafka)}
    assert len(named) >= 20
    without = [kafka for kafka, ours in rows if "`replog " not in ours]
    assert len(without) == 3, without
    parsed = {command.split()[0] for command in shown("docs/divergences.md")}
    assert parsed >= {"topic", "partition", "broker", "cluster", "offsets", "records", "acl", "produce", "consume"}
