"""Whole clusters in one operating-system process, under virtual time, with every fault drawn from a seed.

`docs/simulator.md` says how to use it.

| Looking for | File |
|---|---|
| one seed from beginning to end; many seeds; what they came to | `simulation.py`, `runner.py`, `report.py` |
| named mixes of faults; one seed's cluster, topics and settings | `profiles.py`, `plan.py` |
| what all parts run on: loop, network, disk, chance, trace | `kernel.py`, `chance.py`, `trace.py` |
| virtual time, and processes that can be killed or paused | `loop.py`, `callbacks.py`, `process.py`, `clocks.py` |
| messages: delayed, lost, repeated, blocked | `network.py`, `links.py`, `calls.py`, `streams.py` |
| files: full disks, failures, power losses | `disk.py`, `journal.py`, `python_files.py` |
| how long disks take | `disk_times.py` |
| the hosts, and the cluster that they make up | `members.py`, `cluster.py` |
| what a process has others do for it: cleanings | `cleanings.py` |
| what clients do, transactions too, and what they were told | `workload.py`, `transactions.py`, `history.py` |
| what goes wrong, when, and what must not go wrong together | `nemesis.py`, `faults/`, `budget.py` |
| whether a majority serves while there is trouble | `serving.py` |
| everything mended, at rest, and compared | `ending.py` |
| what must hold after every step (INV-1 to INV-22) | `checks/`, `invariants.py` |
"""
