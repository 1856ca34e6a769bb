"""Ports that a broker can have again after it was down."""

import socket
import subprocess
import sys

from replog.local_cluster.ports import HOST, free_port, is_free


def test_a_port_that_somebody_listens_on_is_not_free():
    with socket.create_server((HOST, 0)) as listener:
        assert not is_free(listener.getsockname()[1])


def test_a_free_port_is_none_of_those_taken_and_can_be_listened_on():
    taken: list[int] = []
    for _ in range(20):
        taken.append(free_port(taken))
    assert len(set(taken)) == 20
    socket.create_server((HOST, taken[0])).close()


def test_a_port_given_out_is_given_to_nobody_else_and_its_server_may_listen_on_it():
    """Another process asked between a port's choice and the start of its server, and had it first."""
    port = free_port([])
    ask = f"import socket; socket.socket().bind(({HOST!r}, {port}))"
    asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    assert "Address already in use" in asked.stderr
    assert is_free(port)
    serve = f"import socket; socket.create_server(({HOST!r}, {port}))"
    subprocess.run([sys.executable, "-c", serve], check=True)


def test_ports_lie_below_the_range_of_outgoing_connections():
    """Else a peer's reconnect could take the very port of the broker that it waits for."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first_ephemeral = int(file.read().split()[0])
    if first_ephemeral > 32_000:
        assert all(free_port([]) < first_ephemeral for _ in range(20))
