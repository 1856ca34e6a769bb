"""Who may not come in over TLS does not: what attackers try, and what they and the log hear."""

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.authority import issue
from replog.rpc import methods, tls
from replog.rpc.http2.shells import handshakes
from replog.rpc.http2.shells import server as h2_server
from replog.rpc.http2.shells.reads import LITTLE_BYTES
from replog.rpc.peer import Peer, Role
from replog.rpc.tls import NAME_LENGTH, Identity, Tls, TlsFiles, identity_of
from replog.rpc.transport import Denied, unrecorded
from replog.rpc.transports import GrpcTransport, H2Transport
from replog.rpc.v1 import controller_pb2, presence_pb2, replica_pb2
from replog.server.process import raise_limit
from tests.replog.rpc.handlers import Handlers, ask, channel_to, error_of, listening, serving, until
from tests.replog.rpc.secured import CLUSTER, LONG_AGO, NOW, Authority

SERVICES = (methods.LOG, methods.REPLICA, methods.CONTROLLER, methods.PRESENCE)


@pytest.fixture(params=[H2Transport, GrpcTransport], ids=["h2", "grpcio"])
def kind(request: Any) -> Any:
    """Of transport: for what each does by itself."""
    return request.param


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@contextlib.asynccontextmanager
async def broker(
    kind: Any, authority: Authority, handlers: Handlers, auth: str = "required", denied: Denied = unrecorded
) -> AsyncIterator[str]:
    tls = authority.tls(Role.BROKER, "1", auth)
    async with serving(handlers, *SERVICES, transport=kind(tls), denied=denied) as address:
        yield address


def _unchecked(authority: Authority, keystore: Path) -> Tls:
    """What an attacker's own program shows: it does not look at its certificate first."""
    attacker = authority.shows(None)
    context = tls._context(ssl.PROTOCOL_TLS_CLIENT, keystore, authority.truststore.read_bytes())
    attacker.material = replace(attacker.material, client=context, keystore=keystore.read_bytes())
    return attacker


def _stranger(authority: Authority) -> Tls:
    """Of another cluster. It trusts ours, as an attacker would."""
    other = Authority(authority.directory / "other", "another-cluster")
    return _unchecked(authority, other.keystore(Role.BROKER, "1"))


ATTACKERS: dict[str, tuple[Callable[[Authority], Tls | None], str, str]] = {
    "plaintext": (lambda _: None, "security.protocol=SSL", "speaks no TLS"),
    "no certificate": (lambda ours: ours.shows(None), "ssl.keystore.location", "showed no certificate"),
    "another authority": (_stranger, "ssl.keystore.location", "certificate is refused"),
    "expired": (
        lambda ours: _unchecked(ours, ours.signs([f"replog://{CLUSTER}/broker/1"], NOW - timedelta(minutes=1))),
        "ssl.keystore.location|issue another",
        "certificate has expired",
    ),
    "another cluster of the same authority": (
        lambda ours: _unchecked(ours, ours.signs(["replog://another-cluster/broker/1"])),
        f"of cluster 'another-cluster', and this is '{CLUSTER}'",
        f"of cluster 'another-cluster', and this is '{CLUSTER}'",
    ),
    "nobody": (lambda ours: _unchecked(ours, ours.signs([])), "0 names replog://", "0 names replog://"),
    "somebody and somebody else": (
        lambda ours: _unchecked(ours, ours.signs([f"replog://{CLUSTER}/{role}/1" for role in ("client", "broker")])),
        "2 names replog://",
        "2 names replog://",
    ),
}


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_who_is_none_of_ours_is_refused_and_told_what_to_do(kind, authority, handlers, caplog, attacker):
    shows, told, logged = ATTACKERS[attacker]
    caplog.set_level(logging.INFO)
    async with broker(kind, authority, handlers) as address:
        async with channel_to(address, kind(shows(authority))) as channel:
            error = await error_of(ask(channel, "a", timeout_s=20))
        async with channel_to(address, kind(authority.tls())) as channel:
            assert await ask(channel, "a") == ["a"], "others are served"
    assert error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), error
    assert any(each in error.message for each in told.split("|")), error
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        assert address in error.message
    assert [peer.principal for peer in handlers.peers] == ["User:ann"]
    if kind is H2Transport or "refused a call" in caplog.text:
        assert "127.0.0.1:" in caplog.text, caplog.text
        assert logged in caplog.text, caplog.text
    secrets = [line for path in authority.directory.rglob("*.pem") for line in path.read_text().splitlines()[1:3]]
    assert not any(secret in caplog.text + error.message for secret in secrets)


async def test_tls_to_a_port_without_is_refused_on_both_sides(kind, authority, handlers, caplog):
    async with (
        serving(handlers, *SERVICES, transport=kind()) as address,
        channel_to(address, kind(authority.tls())) as channel,
    ):
        error = await error_of(ask(channel, "a", timeout_s=20))
    assert error.code is ErrorCode.NETWORK_EXCEPTION
    assert address in error.message
    assert "security.protocol=PLAINTEXT" in error.message
    assert not handlers.peers
    if kind is H2Transport:
        assert "refused a connection of 127.0.0.1:" in caplog.text


async def test_a_server_that_is_none_of_ours_gets_no_call(kind, authority, handlers):
    """Its certificate is a client's, of another authority, or for another host."""
    other = Authority(authority.directory / "other")
    for shows, host, told in (
        (authority.shows(authority.keystore(Role.CLIENT, "ann"), "none"), "127.0.0.1", "certificate is refused"),
        (other.tls(Role.BROKER, "1", "none"), "127.0.0.1", "ssl.truststore.location"),
        (authority.tls(Role.BROKER, "1", "none"), "127.0.0.2", "--host|its certificate is refused"),
    ):
        async with (
            listening(H2Transport(shows).listen(f"{host}:0"), handlers, methods.LOG) as address,
            channel_to(address, kind(authority.tls())) as channel,
        ):
            error = await error_of(ask(channel, "a", timeout_s=20))
        assert error.code is ErrorCode.NETWORK_EXCEPTION
        assert address in error.message
        assert any(each in error.message for each in told.split("|")), error
    assert not handlers.peers


async def test_a_clients_certificate_is_no_servers_though_its_authority_lets_it_be_one(authority, handlers):
    shows = authority.shows(authority.signs([f"replog://{CLUSTER}/client/ann"]), "none")
    async with serving(handlers, methods.LOG, transport=H2Transport(shows)) as address:
        port = address.rpartition(":")[2]
        async with channel_to(f"localhost:{port}", H2Transport(authority.tls())) as channel:
            error = await error_of(ask(channel, "a", timeout_s=20))
    assert "its certificate is that of a client, User:ann" in error.message
    assert not handlers.peers


WHOLE = "CLUSTER:kafka-cluster"
PRINCIPALS = {Role.CLIENT: "User", Role.BROKER: "Broker", Role.CONTROLLER: "Controller"}


async def _register(channel: Any, broker_id: int) -> None:
    request = controller_pb2.RegisterBrokerRequest(broker_id=broker_id)
    await channel.call(methods.Controller["register_broker"], request, 20)


async def _open(channel: Any, _: int) -> None:
    await channel.open(methods.Replica["fetch"]).receive(20)  # and says nothing: grpcio tells less to who sends on


async def _follow(channel: Any, replica_id: int) -> None:
    stream = channel.open(methods.Replica["fetch"])
    stream.post(replica_pb2.ReplicaFetchRequest(replica_id=replica_id))
    await stream.receive(20)


async def _ask_who(channel: Any, broker_id: int) -> None:
    await channel.call(methods.Presence["are_you"], presence_pb2.AreYouRequest(broker_id=broker_id), 20)


@pytest.mark.parametrize(
    ("role", "name", "does", "refused", "resource"),
    [
        (Role.CLIENT, "1", _register, "is for a broker's certificate; User:1 at 127.0.0.1 is a client", WHOLE),
        (Role.CLIENT, "1", _open, "is for a broker's certificate; User:1 at 127.0.0.1 is a client", WHOLE),
        (Role.CONTROLLER, "1", _open, "is for a broker's certificate; Controller:1", WHOLE),
        (Role.BROKER, "2", _register, "broker_id=1 is not the broker of the certificate, Broker:2", "BROKER:1"),
        (Role.BROKER, "2", _follow, "replica_id=1 is not the broker of the certificate, Broker:2", "BROKER:1"),
        (Role.BROKER, "1", _ask_who, "is for a controller's certificate; Broker:1", WHOLE),
    ],
)
async def test_a_certificate_opens_what_is_its_roles_and_a_broker_speaks_for_itself(
    kind, authority, handlers, role, name, does, refused, resource
):
    denied: list[tuple[object, ...]] = []
    async with (
        broker(kind, authority, handlers, denied=lambda *words: denied.append(words)) as address,
        channel_to(address, kind(authority.tls(role, name))) as channel,
    ):
        error = await error_of(does(channel, 1))
        assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error
        assert refused in error.message
        assert not handlers.asked
        assert await ask(channel, "a") == ["a"], "what is anybody's is open"
    ((asks, *words, why),) = denied
    path = {_register: "Controller/RegisterBroker", _ask_who: "Presence/AreYou"}.get(does, "Replica/Fetch")
    assert asks == Peer(f"{PRINCIPALS[role]}:{name}", role, "127.0.0.1")
    assert words == ["CLUSTER_ACTION", resource, f"/replog.v1.{path}"]
    assert str(why).removeprefix("it ") in refused


@pytest.mark.parametrize(("kind", "auth"), [(H2Transport, "requested"), (H2Transport, "none"), (GrpcTransport, "none")])
async def test_where_no_certificate_is_required_who_shows_none_is_an_anonymous_client(kind, authority, handlers, auth):
    async with (
        broker(kind, authority, handlers, auth) as address,
        channel_to(address, kind(authority.shows(None))) as channel,
    ):
        await ask(channel, "a")
        assert handlers.peers == [Peer("User:ANONYMOUS", Role.CLIENT, "127.0.0.1")]
        assert (await error_of(_register(channel, 1))).code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if auth == "requested":
        async with (
            broker(kind, authority, handlers, auth) as address,
            channel_to(address, kind(authority.tls())) as channel,
        ):
            await ask(channel, "a")
            assert handlers.peers[-1].principal == "User:ann"


async def test_grpcio_cannot_request_a_certificate_and_says_so(authority):
    with pytest.raises(ReplogError, match=r"ssl.client.auth=requested.*rpc.transport=h2"):
        await GrpcTransport(authority.tls(Role.BROKER, "1", "requested")).listen("127.0.0.1:0").start()


async def test_thousands_of_handshakes_that_do_not_end_are_bounded_in_number_and_time_and_others_are_served(
    authority, handlers, monkeypatch, caplog
):
    raise_limit()
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKES", 100)
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 3.0)
    listening = H2Transport(authority.tls(Role.BROKER, "1")).listen("127.0.0.1:0")
    listening.add(methods.LOG, handlers)
    address = await listening.start()
    host, _, port = address.partition(":")
    under_way = listening._handshakes._under_way
    started_s = time.monotonic()
    with contextlib.ExitStack() as opened:
        async with channel_to(address, H2Transport(authority.tls())) as before:
            await ask(before, "a")
            sockets = []
            for number in range(3000):
                half = opened.enter_context(socket.socket())
                half.setblocking(False)
                await asyncio.get_running_loop().sock_connect(half, (host, int(port)))
                if number % 2:
                    half.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # a hello that does not go on
                sockets.append(half)
                assert len(under_way) <= 100
                if number % 1000 == 500:
                    async with channel_to(address, H2Transport(authority.tls())) as channel:
                        assert await ask(channel, "b") == ["b"], "who comes meanwhile is served"
            assert await ask(before, "a") == ["a"]
            await until(lambda: not under_way and len(listening._connections) <= 1)
            assert all(_is_closed(half) for half in sockets)
            assert await ask(before, "a") == ["a"], "and who was there"
    await listening.stop(0)
    assert "younger TLS handshakes are under way" in caplog.text
    seconds = int(time.monotonic() - started_s) + 2  # those that it touched
    assert len(caplog.records) <= min(1500, seconds * handshakes.LINES_A_SECOND), "a flood does not fill the log"


async def test_a_handshake_that_waits_for_its_turn_is_not_read_from_whoever_else_brings_much(authority, handlers):
    """Its next bytes would take the place of those that wait."""
    server = H2Transport(authority.tls(Role.BROKER, "1")).listen("127.0.0.1:0")
    keystore = authority.directory / "long.pem"
    keystore.write_bytes(authority.keystore(Role.CLIENT, "ann").read_bytes() + 60 * authority.truststore.read_bytes())
    spent_s = itertools.count(step=0.05)
    async with (
        listening(server, handlers, methods.LOG) as address,
        channel_to(address, H2Transport(authority.shows(keystore))) as channel,
    ):
        server._handshakes._cpu_s = lambda: next(spent_s)  # each step takes the time of many
        server._shared.reads.much = LITTLE_BYTES  # as after another one has brought much in this turn
        assert await ask(channel, "a") == ["a"]


async def test_certificates_that_the_library_cannot_read_leave_those_of_before_in_use(authority, caplog, monkeypatch):
    """Each later look finds them again."""
    keystore = authority.directory / "mine.pem"
    shutil.copy(authority.keystore(Role.CLIENT, "ann"), keystore)
    mine, before = authority.shows(keystore), keystore.read_bytes()
    monkeypatch.setattr(x509, "load_pem_x509_certificates", _unsupported)
    keystore.write_bytes(before + b"\n")
    mine.look()
    assert "certificates from before stay in use" in caplog.text
    assert "not by this library" in caplog.text


def _unsupported(_: bytes) -> None:
    raise UnsupportedAlgorithm("not by this library")


def _is_closed(half: socket.socket) -> bool:
    try:
        return half.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _shown_by(address: str, authority: Authority) -> str:
    """The number of the certificate that a server shows now."""
    context = ssl.create_default_context(cafile=str(authority.truststore))
    context.load_cert_chain(authority.keystore(Role.CLIENT, "ann"))
    host, _, port = address.partition(":")
    with context.wrap_socket(socket.create_connection((host, int(port)), 20), server_hostname=host) as connection:
        return str(connection.getpeercert()["serialNumber"])  # type: ignore[index]


async def test_certificates_are_exchanged_while_both_sides_run(kind, authority, handlers, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    theirs, ours = tmp_path / "server.pem", tmp_path / "client.pem"
    shutil.copy(authority.keystore(Role.BROKER, "1"), theirs)
    shutil.copy(authority.keystore(Role.CLIENT, "ann"), ours)
    listening, shows = authority.shows(theirs), kind(authority.shows(ours))
    async with serving(handlers, *SERVICES, transport=kind(listening)) as address:
        async with channel_to(address, shows) as old:
            await ask(old, "a")
            theirs.write_text("not yet whole")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(60):
                    while "stay in use" not in caplog.text:
                        await asyncio.to_thread(_shown_by, address, authority)
                        await asyncio.sleep(0.1)
            assert "the certificates from before stay in use" in caplog.text
            before = await asyncio.to_thread(_shown_by, address, authority)
            shutil.copy(issue(authority.directory, Role.BROKER, "1", replace=True), theirs)
            shutil.copy(authority.keystore(Role.CLIENT, "bob"), ours)
            async with asyncio.timeout(60):
                while before == await asyncio.to_thread(_shown_by, address, authority):
                    await asyncio.sleep(0.1)
            assert await ask(old, "a") == ["a"], "a connection from before goes on"
        async with asyncio.timeout(60):
            while handlers.peers[-1].principal != "User:bob":
                async with channel_to(address, shows) as new:
                    await ask(new, "a")
                await asyncio.sleep(0.1)


async def test_an_authority_is_exchanged_step_by_step_and_the_old_one_is_believed_no_longer(
    kind, authority, handlers, tmp_path
):
    new = Authority(tmp_path / "new")
    files = {role: (tmp_path / f"{role}.pem", tmp_path / f"{role}-ca.pem") for role in (Role.BROKER, Role.CLIENT)}
    both = authority.truststore.read_bytes() + new.truststore.read_bytes()

    def exchange(signer: Authority, trusted: bytes) -> None:
        for role, (keystore, truststore) in files.items():
            shutil.copy(signer.keystore(role, "1"), keystore)
            truststore.write_bytes(trusted)

    exchange(authority, authority.truststore.read_bytes())
    theirs, ours = (Tls(TlsFiles(*files[role])) for role in files)
    async with serving(handlers, *SERVICES, transport=kind(theirs)) as address:

        async def answers(tls: Tls) -> bool:
            async with channel_to(address, kind(tls)) as channel:
                try:
                    return await ask(channel, "a", timeout_s=20) == ["a"]
                except ReplogError:
                    return False

        for signer, trusted in ((authority, both), (new, both), (new, new.truststore.read_bytes())):
            exchange(signer, trusted)
            theirs.look()
            ours.look()
            assert await answers(ours)
        assert not await answers(_unchecked(new, authority.keystore(Role.CLIENT, "1")))


async def test_who_came_before_an_authority_was_removed_has_to_come_again_and_nobody_else(
    authority, handlers, tmp_path, monkeypatch
):
    monkeypatch.setattr(h2_server, "SWEEP_S", 0.05)
    monkeypatch.setattr(tls, "LOOK_S", 0.05)
    new = Authority(tmp_path / "new")
    trusted = tmp_path / "ca.pem"
    shutil.copy(authority.truststore, trusted)
    shows = Tls(TlsFiles(authority.keystore(Role.BROKER, "1"), trusted))
    listening = H2Transport(shows).listen("127.0.0.1:0")
    listening.add(methods.LOG, handlers)
    address = await listening.start()

    async def exchanged(*authorities: Authority) -> None:
        trusted.write_bytes(b"".join(each.truststore.read_bytes() for each in authorities))
        await until(lambda: shows.material.roots == trusted.read_bytes())

    async with channel_to(address, H2Transport(authority.tls())) as channel:
        await ask(channel, "a")
        (connection,) = listening._connections
        await exchanged(new, authority)
        assert connection.is_believed, "one was added"
        assert await ask(channel, "a") == ["a"]
        assert list(listening._connections) == [connection]
        await exchanged(new)
        await until(lambda: not listening._connections)
        error = await error_of(ask(channel, "a", timeout_s=20))
        assert "does not trust the authority of our certificate" in error.message
        await exchanged(authority)
        async with asyncio.timeout(20):
            while True:  # a channel that was refused rests before it tries again
                with contextlib.suppress(ReplogError):
                    assert await ask(channel, "a") == ["a"]
                    break
                await asyncio.sleep(0.05)
    await listening.stop(0)


@pytest.mark.parametrize(
    ("role", "name", "other"),
    [(Role.BROKER, "1", "client/ann"), (Role.BROKER, "1", "broker/2"), (Role.CONTROLLER, "c", "controller/d")],
)
def test_a_file_of_another_does_not_take_the_place_of_ones_own(authority, tmp_path, caplog, role, name, other):
    mine, (other_role, other_name) = tmp_path / "mine.pem", other.split("/")
    shutil.copy(authority.keystore(role, name), mine)
    shows = authority.shows(mine)
    shutil.copy(authority.keystore(Role(other_role), other_name), mine)
    shows.look()
    assert shows.material.identity == Identity(CLUSTER, role, name)
    assert f"says replog://{CLUSTER}/{other}, and before it replog://{CLUSTER}/{role}/{name}" in caplog.text


def test_files_that_cannot_be_used_are_named_with_their_setting(authority, tmp_path):
    expired, mine = tmp_path / "expired.pem", authority.keystore(Role.BROKER, "1")
    shutil.copy(authority.signs([f"replog://{CLUSTER}/broker/1"], LONG_AGO + timedelta(days=1)), expired)
    other = Authority(tmp_path / "other")
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(mine.read_bytes()[:241] + other.keystore(Role.BROKER, "1").read_bytes()[241:])
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for keystore, truststore, says in (
        (tmp_path / "none.pem", authority.truststore, "ssl.keystore.location=.*none.pem: .*No such file"),
        (mine, tmp_path / "none.pem", "ssl.truststore.location=.*none.pem: .*No such file"),
        (expired, authority.truststore, "ssl.keystore.location=.*: its certificate ended on "),
        (authority.truststore, authority.truststore, "ssl.keystore.location=.*ca.pem: "),
        (mixed, authority.truststore, "its first certificate is not that of its private key"),
        (empty, authority.truststore, "it is no PEM file"),
        (authority.signs([]), authority.truststore, "0 names replog://"),
    ):
        with pytest.raises(ReplogError, match=says) as refused:
            Tls(TlsFiles(keystore, truststore))
        assert refused.value.code is ErrorCode.INVALID_CONFIG
        assert "PRIVATE" not in refused.value.message


def test_who_may_not_read_a_file_is_told_to_change_that_and_not_to_make_another(authority):
    keystore = authority.keystore(Role.CLIENT, "ann")
    keystore.chmod(0)
    os.seteuid(65534 if os.geteuid() == 0 else os.geteuid())
    try:
        with pytest.raises(ReplogError, match=r"ssl.*Permission denied.*; change its owner or its permissions"):
            authority.shows(keystore)
    finally:
        os.seteuid(os.getuid())


def test_a_certificate_says_one_name_of_three_parts():
    for name in ("ann", "a b/c%"):
        identity = Identity(CLUSTER, Role.CLIENT, name)
        assert identity_of(["https://x.example", identity.uri]) == identity
    for uri in ("replog://c", "replog://c/broker", "replog://c/broker/1/2", "replog://c/any/1", "replog:///client/a"):
        with pytest.raises(ValueError, match="which is not replog://"):
            identity_of([uri])


@pytest.mark.parametrize("name", ["ann\nadmin", "a\x1b[2J", "a" * (NAME_LENGTH + 1)])
def test_a_name_in_a_certificate_can_be_logged_as_it_is(name):
    with pytest.raises(ValueError, match="a name has printable characters") as refused:
        identity_of([Identity(CLUSTER, Role.CLIENT, name).uri])
    assert str(refused.value).isprintable()
