"""`replog tls …`: a cluster's own authority, and certificates for its processes and its users."""

from pathlib import Path
from typing import Annotated

import typer

from replog.command.app import App
from replog.command.output import note

app = App(help="Certificates of a cluster. Start with `replog tls init DIR`; docs/security.md has the whole way.")

Authority = Annotated[
    Path, typer.Option("--authority", "-a", metavar="DIR", help="Where `replog tls init` made the authority.")
]


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it.")],
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Of a cluster that there is; else a new id.")
    ] = None,
) -> None:
    """Make an authority for five years, and print the id of the cluster that its certificates are for.

    `ca.pem` goes to every process and client (`ssl.truststore.location`), `ca.key` to nobody: a thief could make any
    certificate with it. `replog controller format` takes the id from a controller's certificate.

    Example: `replog tls init /etc/replog/tls`"""
    from random import SystemRandom

    from replog.controller.cluster_state import new_cluster_id
    from replog.local_cluster import authority
    from replog.local_cluster.cluster_file import CA_CERTIFICATE

    chosen = cluster_id or new_cluster_id(SystemRandom())
    authority.init(directory, chosen)
    note(f"made {directory / CA_CERTIFICATE} and {directory / authority.CA_KEY}; keep the key to yourself")
    print(chosen)


@app.command()
def issue(
    role: Annotated[str, typer.Argument(metavar="broker|controller|client", help="What it is for.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The broker's node.id, or a name.")],
    authority: Authority = Path(),
    host: Annotated[
        list[str] | None, typer.Option(metavar="NAME|ADDRESS", help="How others reach it; may be repeated.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of one that is there.")] = False,
) -> None:
    """Make a private key and its certificate for a year, in one file: DIR/ROLE-NAME.pem (`ssl.keystore.location`).

    It holds for localhost, 127.0.0.1, ::1 and each `--host`. A process that runs takes a replaced one for its new
    connections.

    Example: `replog tls issue broker 1 --authority /etc/replog/tls --host broker-1.example.net`"""
    from replog.command.ending import BadUse
    from replog.local_cluster.authority import CA_KEY, issue
    from replog.rpc.peer import Role

    roles = {str(each): each for each in (Role.BROKER, Role.CONTROLLER, Role.CLIENT)}
    if role not in roles:
        raise BadUse(f"role {role!r}: choose {', '.join(roles)}")
    path = issue(authority, roles[role], name, host or [], replace=replace)
    if (mode := (authority / CA_KEY).stat().st_mode & 0o777) & 0o077:
        note(f"warning: {authority / CA_KEY} has mode {mode:04o}: who reads it can make any certificate; chmod 600 it")
    note(f"made; who has this file is {role} {name}")
    print(path)
