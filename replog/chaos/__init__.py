"""`make chaos`: real processes, each as if on its own machine, with faults from a seed.

Every process has a network namespace with one interface. One process, the switch, has the other ends: it passes frames
on, late, slowly or never, or answers with a TCP reset. Each broker has its own file system, which can be full, frozen
or failing, or lose what was never fsynced. Clients record their requests and answers, which
`replog.simulator.checks.anomalies` checks at the end. The namespaces end with the command, so nothing is left behind.
docs/simulator.md says how to use it.

| File | What |
|---|---|
| `__main__.py` | the command: namespaces around a run, or the reason why there are none |
| `run.py` | one run: faults until the time is up, the checks after each, the verdict |
| `faults/` | the faults of links, machines, disks, clients and commands, and their order |
| `world.py` | the cluster and its clients: started, watched, hurt and repaired; and whether they had enough CPU |
| `network.py` | namespaces, addresses, and orders for the switch |
| `switch.py` | the switch: its rules for frames, and its process |
| `volume.py` | the file system of a machine |
| `silent.py` | a client that asks, and reads no answer |
| `client.py` | a client process: a producer, a consumer, and its notes, written and read |
| `verdict.py` | the checks of clients and replicas; unavailability by fault |
"""
