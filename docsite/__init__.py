"""The docs as a site: `make docs` builds it into build/site. Its sources stay where the repository shows them.

| File | What is in it |
|---|---|
| `hook.py` | what MkDocs calls: which pages there are beside docs/*.md, and where links lead |
| `places.py` | which file of the repository is which page |
| `sources.py` | pages that show files of the repository, because a document links to them |
| `api.py` | the reference of the Python API, from the docstrings of `replog.client` |
| `settings.py` | docs/settings.md: names, values and defaults from `replog/config.py` |
| `wire.py` | the reference of the wire, from proto/ |
"""
