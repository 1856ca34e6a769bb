"""MkDocs calls these functions while it builds the site; `mkdocs.yml` names this file."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docsite.api import api_reference
from docsite.places import ABOVE, MADE, PICTURES, page_of, targets, with_links
from docsite.sources import source_page
from docsite.wire import wire_reference

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages for files outside of docs/: other documents, the references, and files that documents link to."""
    documents = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    for path, page in ABOVE.items():
        documents.append(path)
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, reference in zip(MADE.values(), (wire_reference, api_reference), strict=True):
        files.append(File.generated(config, page, content=reference()))
    linked = (targets((ROOT / document).read_text(), document) for document in documents)
    for path in sorted(set[str]().union(*linked)):
        page = page_of(path)
        if not page.startswith("source/"):
            continue
        if path.endswith(PICTURES):
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
        else:
            files.append(File.generated(config, page, content=source_page(ROOT, path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages."""
    if page.file.src_uri.startswith("source/") or page.file.src_uri in MADE.values():
        return markdown
    above = {name: path for path, name in ABOVE.items()}
    return with_links(markdown, above.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
