"""A client that asks and reads no answer: `python -m replog.chaos.silent HOST PORT METRICS_PORT`, until SIGKILL.

It opens connections, and writes HTTP/2 pings to the broker's port and requests to that of metrics, as much as each
accepts.
"""

import contextlib
import socket
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4)  # its SETTINGS are empty
PING = b"\x00\x00\x08\x06\x00" + bytes(4) + b"replog!!"
GET = b"GET /metrics HTTP/1.1\r\nHost: replog\r\n\r\n"
CONNECTIONS, TIMEOUT_S, EVERY_S = 20, 5.0, 0.2


def main(host: str, port: int, metrics_port: int) -> None:
    asked: list[tuple[socket.socket, bytes]] = []
    while True:
        for _ in range(CONNECTIONS if len(asked) < CONNECTIONS else 0):
            for to, first, then in ((port, PREFACE, PING), (metrics_port, b"", GET)):
                with contextlib.suppress(OSError):
                    connection = socket.create_connection((host, to), TIMEOUT_S)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.sendall(first)
                    connection.setblocking(False)
                    asked.append((connection, then * 1000))
        for connection, more in asked:
            with contextlib.suppress(OSError):  # the connection accepts no more, or is closed
                connection.send(more)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
