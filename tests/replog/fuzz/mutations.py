"""Valid bytes made invalid the ways that find mistakes: flips, cuts, splices, and numbers that are too large."""

from collections.abc import Sequence

from hypothesis import strategies as st

EXTREMES = tuple(
    number.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for number in (0, 1, -1, -2, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 100)
)
VARINTS = tuple(
    b"\xff" * more + last for more in (0, 1, 2, 3, 4, 8, 9, 10, 20) for last in (b"\x00", b"\x01", b"\x0f", b"\x7f")
)
TEXTS = (
    b"-1",
    b"9" * 19,
    b"9" * 5000,
    b"1e9",
    b"0x1",
    b" ",
    b"\n",
    b"\t",
    b"\0",
    b"\xff",
    "²٣".encode(),
    b"=",
    b"[" * 3000,
)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """One of `seeds` with a few changes, or any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(1, 40)))
        match draw(st.integers(0, 7)):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del data[at:]
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * draw(st.integers(1, 3))
            case 4:
                other = draw(st.sampled_from(seeds))
                data[at:] = other[draw(st.integers(0, len(other))) :]
            case 5:
                number = draw(st.sampled_from(EXTREMES))
                data[at : at + len(number)] = number
            case 6:
                data[at:at] = draw(st.sampled_from(VARINTS))
            case _:
                data[at:at] = draw(st.sampled_from(TEXTS) | st.binary(max_size=8))
    return bytes(data)
