"""`replog console`: a page that shows a running cluster, live and read only.

| Looking for | File |
|---|---|
| what viewers see, in words, and what is new since they last heard | `board.py` |
| the one poll for all viewers, and the last audit's report | `watcher.py` |
| the pages, who may look, and the stream of events | `app.py` |
| the process, its port and its certificates | `process.py` |"""
