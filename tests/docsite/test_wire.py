"""What docs/wire.md shows is what replog reads and writes, and the reference has all that may be called."""

import re
import subprocess
import sys

from docsite.wire import FILES, wire_reference
from replog.log.formats.batch import iterate_batches, validate_crc
from replog.log.formats.records import iterate_records
from replog.rpc.access import ACCESS
from replog.rpc.generate import PROTO, contracts
from tests.docs.tree import ROOT

TEXT = (ROOT / "docs/wire.md").read_text()
SHOWN = "".join(re.findall(r"^```text\n([0-9a-f\n]+)```", TEXT, re.M)).replace("\n", "")


def test_the_program_prints_the_bytes_that_are_shown():
    (program,) = re.findall(r"^```python\n(.*?)```", TEXT, re.M | re.S)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == SHOWN


def test_the_bytes_that_are_shown_are_a_batch():
    batch = bytes.fromhex(SHOWN)
    ((position, header),) = iterate_batches(batch)
    assert validate_crc(batch, position, header)
    assert [(record.offset, record.value) for record in iterate_records(batch, header)] == [
        (0, b"hello"),
        (1, b"world"),
    ]


def test_the_reference_has_every_method_and_message():
    text = wire_reference()
    files = [file for file in contracts(PROTO).file if file.name.rpartition("/")[2].removesuffix(".proto") in FILES]
    assert len(files) == len(FILES)
    assert {"Produce", "AlterPartition"} <= {m.name for file in files for s in file.service for m in s.method}
    for file in files:
        for service in file.service:
            for method in service.method:
                assert f"- **{method.name}**: " in text
                assert f"{service.name}/{method.name}" in ACCESS
        for kind in (*file.message_type, *file.enum_type):
            assert f"\n### {kind.name}\n" in text


def test_a_file_that_is_left_out_has_no_service():
    left_out = [
        file for file in contracts(PROTO).file if file.name.rpartition("/")[2].removesuffix(".proto") not in FILES
    ]
    assert all(not file.service for file in left_out if file.package == "replog.v1")


def test_comments_come_with_what_they_are_about():
    text = wire_reference()
    assert "| 2 | `acks` | sint32 | 0, 1 or -1 (all) |" in text
    assert "- **Produce**: a stream of [ProduceRequest](#producerequest) → a stream of" in text
    assert "Write on each topic that the request names" in text
    assert re.search(r"^\| 6 \| `NOT_LEADER_OR_FOLLOWER` \| refresh, ABORTED: another broker leads \|$", text, re.M)
