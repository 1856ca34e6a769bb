"""The docs as a site: `make docs` builds it into build/site, from files that stay where the repository shows them.

| File | What is in it |
|---|---|
| `hook.py` | the functions that MkDocs calls: they add pages besides docs/*.md, and change links |
| `api.py` | the reference of the Python API, from the docstrings of `replog.client` |
| `settings.py` | docs/settings.md: names, values and defaults from `replog/config` |
"""
