"""The processes around the roles. They have the disk, the network, the clock and random numbers; roles decide.

| Looking for | Where |
|---|---|
| the broker | `broker/` |
| the controller | `controller/` |
| who may do what, and who was denied it | `authorizer.py`, `audit_log.py` |
| time; work in threads; long work in slices | `clock.py`, `trusted_time.py`, `threads.py`, `slices.py` |
| work that gives way to clients; one timer for several moments | `throttle.py`, `deadline_timer.py` |
| set-up of every process | `logging.py`, `hang_up.py`, `descriptors.py`, `garbage.py`, `memory.py` |
| the log of a process | `log_lines.py`, `log_file.py` |
| the end of its certificate | `certificate.py` |
| metrics for Prometheus | `metrics/` |
| steps of the event loop that take too long | `slow_steps.py` |"""
