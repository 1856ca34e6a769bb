"""The processes around the roles. They have the disk, the network, the clock and random numbers; roles decide.

| Looking for | Where |
|---|---|
| the broker | `broker/` |
| the controller | `controller/` |
| who may do what, and who was denied it | `authorizer.py` |
| time; long work, in threads or in slices that give way to clients | `clock.py`, `work.py` |
| set-up of every process | `process.py` |
| its log | `logging.py` |
| metrics for Prometheus | `metrics/` |
| steps of the event loop that take too long | `slow_steps.py` |"""
