"""The site builds without a warning, and every link in it leads somewhere. Every name of the Python API is there."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docsite.hook import ABOVE, api_reference
from replog import client
from tests.docs.tree import DOCUMENTS, ROOT


class Html(HTMLParser):
    """What a page links to and loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors |= {of[name] for name in ("id", "name") if name in of}
        if tag == "a" and "href" in of:
            self.links.add(of["href"])
        elif tag == "link" and of.get("rel") in ("stylesheet", "icon"):
            self.loads.add(of["href"])
        elif "src" in of:
            self.loads.add(of["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, Html]:
    target = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return {path: Html(path.read_text()) for path in target.rglob("*.html") if path.name != "404.html"}


def test_every_document_is_a_page(site):
    names = {path.name for path in site}
    for document in DOCUMENTS:
        page = ABOVE.get(document, document.removeprefix("docs/"))
        assert page.replace(".md", ".html") in names, document


def test_every_link_leads_to_a_page_and_an_anchor(site):
    broken = defaultdict(set)
    for page, html in site.items():
        for link in html.links | html.loads:
            parts = urlsplit(link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if parts.scheme:
                continue
            if not target.is_file() or (
                parts.fragment and target in site and unquote(parts.fragment) not in site[target].anchors
            ):
                broken[page.name].add(link)
    assert sum(len(html.links) for html in site.values()) > 1000
    assert not broken, dict(broken)


def test_a_page_loads_nothing_from_elsewhere(site):
    assert not [(page.name, load) for page, html in site.items() for load in html.loads if urlsplit(load).netloc]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lists_are_written_so_that_they_are_lists_on_the_site_too(document):
    """Python-Markdown wants an empty line before a list, and four blanks before what goes on in an item."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(), flags=re.M | re.S)
    item = r"(?:[-*]|\d+\.) "
    assert not re.findall(rf"^(?!{item}|#|$).+\n{item}.*", text, re.M)
    assert not re.findall(r"^ {1,3}\S.*", text, re.M)


def test_every_name_and_method_says_what_it_promises():
    text = api_reference()
    for name in client.__all__:
        assert re.search(rf"^##+ ({name}\b|.* and {name}$)|`{name}`", text, re.M), name
    silent = re.findall(
        r"^```python\n(?:async )?(\w+(?<!_nowait))(?:\(.*?\))? -> [^`]*```\n\n+(?=```|#|\Z)", text, re.M
    )
    silent += re.findall(r"^##+ (.*)\n\n+```", text, re.M)
    assert not silent, f"these have no docstring: {silent}"
