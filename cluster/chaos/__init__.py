"""`make chaos`: real processes, each on a machine of its own as far as it can tell, hurt as a seed decides.

Every process has a network namespace with one interface. The other end of each is in the hands of one process, the
switch, which passes frames on, late, slowly, not at all, or with a TCP reset for an answer. Brokers have a file system
of their own, which can be full, frozen, failing, or lose what was never fsynced. Clients write down what they ask and
what they are told; `cluster.simulation.checks.anomalies` judges that in the end. All of it lives in namespaces that end
with the command, so nothing of it is left behind. docs/chaos.md says how to use it.

| File | What |
|---|---|
| `__main__.py` | the command: namespaces around a run, or the reason why there are none |
| `run.py` | one run: faults until the time is up, what must hold after each, and the verdict |
| `deck.py` | which fault is next |
| `links.py`, `machines.py`, `disks.py`, `clients.py` | the faults, by what they hurt |
| `world.py` | the cluster and its clients: started, watched, hurt and mended |
| `network.py` | namespaces, addresses, and orders for the switch |
| `switch.py` | the switch: what becomes of a frame, and the process around it |
| `frames.py` | a TCP reset that answers a frame |
| `volume.py` | the file system of a machine |
| `client.py` | a client process: a producer, a consumer, and its notes |
| `notes.py` | notes of clients, written and read |
| `report.py` | unavailability by fault |
"""
