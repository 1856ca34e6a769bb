"""The page for applications that use Kafka names the APIs and versions that brokers have, and no others."""

import re

from replog.kafka.versions import APIS
from tests.docs.tree import ROOT


def test_the_table_of_apis_is_that_of_the_code():
    page = (ROOT / "docs" / "kafka.md").read_text()
    table = page.partition("| | APIs and versions |\n")[2].partition("\n\n")[0]
    told = {name: (int(old), int(new or old)) for name, old, new in re.findall(r"([A-Z]\w+) (\d+)(?:–(\d+))?", table)}
    assert told == {api.name: (api.oldest, api.newest) for api in APIS.values()}
