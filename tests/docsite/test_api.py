"""docs/api.md is what the docstrings of the clients say, and everything in it has one."""

import re

from docsite.api import DOCUMENT, generated
from replog import client


def test_the_page_is_what_the_docstrings_say():
    remedy = "what replog.client has, or says of it, has changed: run `python -m docsite.api`"
    assert DOCUMENT.read_text() == generated(), remedy


def test_every_name_and_method_says_what_it_promises():
    text = generated()
    for name in client.__all__:
        assert re.search(rf"^##+ ({name}\b|.* and {name}$)|`{name}`", text, re.M), name
    silent = re.findall(
        r"^```python\n(?:async )?(\w+(?<!_nowait))(?:\(.*?\))? -> [^`]*```\n\n+(?=```|#|\Z)", text, re.M
    )
    silent += re.findall(r"^##+ (.*)\n\n+```", text, re.M)
    assert not silent, f"these have no docstring: {silent}"
