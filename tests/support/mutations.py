"""Random damage to the bytes of a file."""

import numpy as np

EXTREMES = [b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f", bytes(4) + b"\1" + bytes(3)]


def mutated(content: bytes, other: bytes, random: np.random.Generator, *, head: int = 512) -> bytes:
    """One of seven kinds of damage; several aim at the beginning, where sizes are."""
    changed = bytearray(content)
    size, head = len(content), min(head, len(content))
    kind = random.integers(7)
    if kind == 0:  # a few bits anywhere
        for place in random.integers(0, size, random.integers(1, 6)):
            changed[place] ^= 1 << random.integers(8)
    elif kind == 1:  # a few bytes at the beginning
        for place in random.integers(0, head, random.integers(1, 5)):
            changed[place] = random.integers(256)
    elif kind == 2:  # an extreme number
        place = int(random.integers(0, size if random.random() < 0.5 else head))
        changed[place : place + 8] = EXTREMES[random.integers(len(EXTREMES))]
    elif kind == 3:  # cut short
        del changed[random.integers(0, size) :]
    elif kind == 4:  # longer
        changed += bytes(int(random.integers(1, 10_000)))
    elif kind == 5:  # another file, or its end
        place = int(random.integers(0, min(size, len(other)))) * int(random.integers(2))
        changed[place:] = other[place:]
    else:  # a piece taken out, or twice
        start_at, stop = sorted(random.integers(0, size, 2).tolist())
        changed[start_at:stop] = changed[start_at:stop] * int(2 * random.integers(2))
    return bytes(changed)
