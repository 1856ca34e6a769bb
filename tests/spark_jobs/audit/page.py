"""Reads a page as strictly as the standard library can: what is wrong with its structure raises AssertionError."""

import itertools
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input", "hr", "img"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list["Element"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def all(self, tag: str = "", **wanted: str) -> list["Element"]:
        """Descendants by tag, and by attributes that hold a word."""
        elements = []
        for child in self.children:
            held = {name: (child.attributes.get(name.rstrip("_").replace("_", "-")) or "").split() for name in wanted}
            if tag in ("", child.tag) and all(word in held[name] for name, word in wanted.items()):
                elements.append(child)
            elements += child.all(tag, **wanted)
        return elements

    def id(self, name: str) -> "Element":
        (element,) = self.all(id=name)
        return element

    @property
    def text(self) -> str:
        """With every white space as one blank."""
        return " ".join(" ".join(self.texts).split())


class Page(HTMLParser):
    """`root` is the document; every element's `texts` has all the text within."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("document", {})
        self._open = [self.root]
        self.feed(page)
        self.close()
        assert self._open == [self.root], f"left open: {[element.tag for element in self._open[1:]]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> at {self.getpos()} has an attribute twice: {names}"
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert any(element.tag == "svg" for element in self._open) or tag == "svg", f"<{tag}/> at {self.getpos()}"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> at {self.getpos()} ends <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)


def check(page: str) -> Element:
    """What a validator and an accessibility checker would look at; returns the document."""
    assert page.startswith("<!DOCTYPE html>")
    root = Page(page).root
    ids = [element.attributes["id"] for element in root.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    for element in root.all():
        for name, value in element.attributes.items():
            assert not name.startswith("on"), f"a handler: {element}"
            assert name != "style", f"an inline style, which the policy refuses: {element}"
            if name in ("href", "src"):
                assert value is not None
                assert value.startswith("#"), f"leads off the page: {value}"
                assert value[1:] in ids, f"{value} leads nowhere"
            if name in ("aria-labelledby", "for"):
                assert value is not None
                assert set(value.split()) <= set(ids), f"{name}={value} names nothing"
    assert not root.all("link")
    assert not root.all("img")
    for table in root.all("table"):
        assert table.all("thead"), "a table without a head"
        assert table.all("th"), "a table without headers"
    for header in root.all("th"):
        assert header.attributes.get("scope") in ("row", "col", "colgroup"), f"a header without scope: {header}"
    for svg in root.all("svg"):
        assert "aria-label" in svg.attributes or svg.attributes.get("aria-hidden") == "true", svg.attributes
    labelled = {id(control) for label in root.all("label") for control in label.all()}
    assert all(id(control) in labelled for tag in ("input", "select") for control in root.all(tag))
    levels = [int(element.tag[1]) for element in root.all() if element.tag in HEADINGS]
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels)), levels
    return root
