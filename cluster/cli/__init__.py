"""The command line, `replog NOUN VERB`: data on stdout, everything else on stderr.

| Looking for | File |
|---|---|
| `replog` itself, options of many commands, how a command ends | `main.py`, `__main__.py`, `options.py`, `errors.py` |
| a command's name, options and help | `*_command.py`, `*_commands.py` |
| `produce` and `consume` at work | `produce_lines.py`, `consume_records.py` |
| `log dump`, `verify` and `rebuild-index` at work | `dump.py`, `verify.py`, `rebuild.py` |
| `partition reassign` at work; `partition move` | `reassigning.py`, `throttling.py`; `moving.py` |
| offsets of every replica | `replica_offsets.py` |
| `sim` at work | `sim.py` |
| questions to the cluster; tables and JSON; progress | `asking.py`, `output.py`, `progress.py` |
"""
