"""Whole clusters in one operating-system process, under virtual time, with every fault drawn from a seed.

docs/simulator.md says how to use it. The servers are the shipped ones; clock, network and disk are simulated here.

| Looking for | Where |
|---|---|
| one seed from beginning to end; many seeds, and their results | `simulation.py`, `runner.py` |
| named mixes of faults; one seed's cluster, topics and settings | `profiles.py`, `plan.py` |
| virtual time, processes that can be killed or paused, random numbers, the trace | `runtime/` |
| messages: delayed, lost, repeated, blocked | `network/` |
| files: full disks, failures, power losses, slow disks | `disk/` |
| the hosts, and the cluster that they make up | `cluster/` |
| what clients do, and the answers they got | `clients/`, `history.py` |
| what goes wrong, and when | `faults/` |
| whether a majority serves during the faults | `serving.py` |
| whether one of several controllers leads, and only that one commits (CT-25); their etcd | `leading.py`, `etcd.py` |
| the end: everything is repaired, at rest and compared | `ending.py` |
| what must hold after every step (INV-1 to INV-22) | `checks/`, `invariants.py` |"""
