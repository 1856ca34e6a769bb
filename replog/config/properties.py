"""Java's limits of integers, and files of properties. Importing it does not load the settings' models."""

from pathlib import Path

from replog.errors import ErrorCode

MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1
MAX_BATCH_BYTES = 14 << 20  # this and the largest head of a produce fit into a message (`replog.rpc.limits`)
MAX_PROPERTIES_BYTES = 1 << 20
PATHS = frozenset(  # settings that are paths
    {"log.dirs", "log.file", "metadata.log.dir"}
    | {f"{of}ssl.{store}.location" for of in ("", "metadata.etcd.") for store in ("keystore", "truststore")}
)


def number_in(text: str, most: int = MAX_LONG) -> int | None:
    """Return the number from 0 to `most` that `text` is in ASCII digits; else None. `int` raises for 5,000 digits."""
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return number if is_short and (number := int(text)) <= most else None


def load_properties(path: Path) -> dict[str, str]:
    """Read a Java-style `name=value` file: blank lines and lines that start with # or ! are skipped.

    Raises INVALID_CONFIG, naming file and line, when it is missing, unreadable, too large or malformed."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PROPERTIES_BYTES + 1)
    except OSError as error:
        raise ErrorCode.INVALID_CONFIG.error(f"cannot read {path}: {error}") from None
    return parse_properties(path, raw)


def load_settings(path: Path) -> dict[str, str]:
    """Read a file as `load_properties` does; relative paths count from the file, since processes start in any
    directory.

    Raises INVALID_CONFIG, too, for a path that only exists if it counts from the working directory, as in 0.1.0."""
    properties, home = load_properties(path), path.absolute().parent
    for name in PATHS & properties.keys():
        several = name == "log.dirs"
        given = [part.strip() for part in properties[name].split(",")] if several else [properties[name]]
        places = [each and str(home / each) for each in given]
        for each, place in zip(given, places, strict=True):
            if (several and "," in place) or (Path(each).exists() and not Path(place).exists()):
                raise ErrorCode.INVALID_CONFIG.error(
                    f"{path}: {name}={each} counts from the file, and would be {place}; write the whole path"
                )
        properties[name] = ",".join(places)
    return properties


def parse_properties(path: Path, raw: bytes) -> dict[str, str]:
    """Parse the first `MAX_PROPERTIES_BYTES + 1` bytes of a file, as `load_properties` does."""
    try:
        text = raw.decode("utf-8-sig")  # Windows editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise ErrorCode.INVALID_CONFIG.error(f"cannot read {path}: {error}") from None
    if len(raw) > MAX_PROPERTIES_BYTES:
        raise ErrorCode.INVALID_CONFIG.error(f"{path} is larger than {MAX_PROPERTIES_BYTES} bytes")
    properties: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        put_setting(properties, line, f"{path}:{number}:")
    return properties


def put_setting(properties: dict[str, str], text: str, place: str) -> None:
    """Add `name=value` from that place. Raises INVALID_CONFIG."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ErrorCode.INVALID_CONFIG.error(f"{place} {text!r} is not name=value")
    if name.strip() in properties:
        raise ErrorCode.INVALID_CONFIG.error(f"{place} {name.strip()} is set twice")
    properties[name.strip()] = value.strip()
