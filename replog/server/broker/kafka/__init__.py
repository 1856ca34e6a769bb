"""Kafka's own protocol, for clients.

- `connection.py`: a client's connection: frames in, answers out in order; turns, mutes, slow readers
- `dispatch.py`: a request becomes a call of the API's handler, its errors an answer
- `service.py`, `call.py`: what a handler gets: this broker, and one request
- `fetch_requests.py`, `fetch_rows.py`: what a connection's fetches ask for (KIP-227), and their answers
- `partition_rows.py`, `leaders.py`: a row for each partition, and leaders that answers name (KIP-951)
- `apis/`: a file for each API: its name in snake case, `serve`, and its versions at the top
"""
