"""Apache Kafka's own JUnit tests, unchanged, on clusters of ours: `java/` stands in for what starts Kafka's brokers.

Where a test wants the objects inside a broker, a controller that speaks Kafka's protocol, or SASL, it stops by itself
and counts as skipped. Isolated and combined controllers are the same to us, so that such a pair of runs is one.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.foreign.judge import SAID, Judge, Said, Verdict
from tests.foreign.kafka_jars import junit

pytestmark = pytest.mark.foreign

TWICE = "has the same cluster as the test before"
JUDGE = Judge("kafka_junit")
TOOLS = "org.apache.kafka.tools."
CLASSES = [
    TOOLS + "BrokerApiVersionsCommandTest",
    TOOLS + "ClusterToolTest",
    TOOLS + "DeleteRecordsCommandTest",
    "kafka.api.PlaintextProducerSendTest",
    "kafka.server.ClientQuotasRequestTest",
    "kafka.server.CreateTopicsRequestTest",
    "kafka.server.ListOffsetsRequestTest",
    "kafka.server.MetadataRequestTest",
    "kafka.server.ProduceRequestTest",
]
_ANSI = re.compile(r"\x1b\[\d*m")


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_kafkas_own_tests_does_as_listed(tmp_path, name):
    short = name.rpartition(".")[2]
    JUDGE.check(_said(tmp_path, name), asked=[test for test in JUDGE.listed if test.startswith(f"{short}::")])


def _said(work: Path, name: str) -> dict[str, Said]:
    """Return what became of each test, as `Class::method #number`; what they printed is kept beside the lists."""
    logs = SAID / JUDGE.name
    logs.mkdir(parents=True, exist_ok=True)
    command = [*junit(work / "clusters", work), "-c", name]
    with (logs / f"{name}.log").open("wb") as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    report = work / "TEST-junit-jupiter.xml"
    assert report.exists(), f"Kafka's tests ended with {done.returncode}: see {log.name}"
    said: dict[str, Said] = {}
    numbers: Counter[str] = Counter()
    for case in sorted(ElementTree.parse(report).iter("testcase"), key=_place):
        one = _verdict(case)
        if one.why.endswith(TWICE):
            continue
        method = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '').partition('(')[0]}"
        numbers[method] += 1
        said[f"{method} #{numbers[method]}"] = one
    return said


def _place(case: ElementTree.Element) -> tuple[str, str, int]:
    """Return what sorts tests: by class, method and number."""
    method, _, number = case.get("name", "").partition("[")
    return case.get("classname", ""), method, int(number.rstrip("]") or 0)


def _verdict(case: ElementTree.Element) -> Said:
    for child in case:
        why = child.get("message") or next(iter((child.text or "").strip().splitlines()), "") or "no reason"
        if child.tag in ("failure", "error"):
            return Said(Verdict.FAILS, f"{child.get('type', '').rpartition('.')[2]}: {_ANSI.sub('', why)}")
        if child.tag == "skipped":
            return Said(Verdict.SKIPS, re.sub(r"^.*TestAbortedException: ", "", _ANSI.sub("", why)))
    return Said(Verdict.PASSES)
