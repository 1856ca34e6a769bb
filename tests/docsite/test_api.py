"""The reference of the Python API has every public name, and everything in it has a docstring."""

import re

from docsite.api import api_reference
from replog import client


def test_every_name_and_method_says_what_it_promises():
    text = api_reference()
    for name in client.__all__:
        assert re.search(rf"^##+ ({name}\b|.* and {name}$)|`{name}`", text, re.M), name
    silent = re.findall(
        r"^```python\n(?:async )?(\w+(?<!_nowait))(?:\(.*?\))? -> [^`]*```\n\n+(?=```|#|\Z)", text, re.M
    )
    silent += re.findall(r"^##+ (.*)\n\n+```", text, re.M)
    assert not silent, f"these have no docstring: {silent}"
