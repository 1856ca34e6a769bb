"""What Kafka has from Java: the limits of integers, and files of properties. Imported without the settings' models."""

from pathlib import Path

from replog.errors import ErrorCode

MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1
MAX_BATCH_BYTES = 14 << 20  # what a message carries beside the largest head of a produce (`replog.rpc.limits`)
MAX_PROPERTIES_BYTES = 1 << 20


def load_properties(path: Path) -> dict[str, str]:
    """Read a Java-style `name=value` file: blank lines and lines that start with # or ! are skipped.

    Raises INVALID_CONFIG, naming file and line, when it is missing, unreadable, too large or malformed.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PROPERTIES_BYTES + 1)
    except OSError as error:
        raise ErrorCode.INVALID_CONFIG.error(f"cannot read {path}: {error}") from None
    return parse_properties(path, raw)


def parse_properties(path: Path, raw: bytes) -> dict[str, str]:
    """As `load_properties`, of the first `MAX_PROPERTIES_BYTES + 1` bytes of the file."""
    try:
        text = raw.decode("utf-8-sig")  # editors of Windows begin a file with a mark
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
    """`name=value`, from that place. Raises INVALID_CONFIG."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ErrorCode.INVALID_CONFIG.error(f"{place} {text!r} is not name=value")
    if name.strip() in properties:
        raise ErrorCode.INVALID_CONFIG.error(f"{place} {name.strip()} is set twice")
    properties[name.strip()] = value.strip()
