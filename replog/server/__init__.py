"""The processes around the roles. They have the disk, the wire, the clock and random numbers; roles decide.

| Looking for | Where |
|---|---|
| the broker | `broker/` |
| the controller | `controller/` |
| who may do what, and who was denied it | `authorizer.py`, `audit_log.py` |
| time; work in threads; long work in slices | `clock.py`, `trusted_time.py`, `threads.py`, `slices.py` |
| what gives way to clients; one timer for several moments | `pace.py`, `alarm.py` |
| what every process sets up | `logging.py`, `hang_up.py`, `descriptors.py`, `garbage.py`, `memory.py` |
| where its log goes | `log_lines.py`, `log_file.py` |
| the end of its certificate | `certificate.py` |
| what Prometheus is told | `metrics/` |
| steps of the event loop that take too long | `slow_steps.py` |"""
