"""The docs as a site: `make docs` builds it into build/site, from files that stay where the repository shows them.

| File | What is in it |
|---|---|
| `hook.py` | the functions that MkDocs calls: they add pages, such as that of the Python API, and change links |
| `settings.py` | docs/settings.md: names, values and defaults from `replog/config` |
"""
