"""What docs/wire.md shows is what replog reads and writes."""

import re
import subprocess
import sys

from replog.log.formats.batch import iterate_batches, validate_crc
from replog.log.formats.records import iterate_records
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
