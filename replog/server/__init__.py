"""The processes around the roles. They have the disk, the network, the clock and random numbers; roles decide.

| Looking for | Where |
|---|---|
| the broker | `broker/` |
| the controller | `controller/` |
| who may do what, and who was denied it | `authorizer.py` |
| time; work in threads | `clock.py`, `threads.py` |
| long work in slices, which gives way to clients | `slices.py` |
| set-up of every process | `process.py` |
| its log | `logging.py` |
| metrics for Prometheus | `metrics/` |
| steps of the event loop that take too long | `slow_steps.py` |"""
