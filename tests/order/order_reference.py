"""The slow, obvious version of the core's maps: one value at a time, in Python's own integers."""

from __future__ import annotations

import math

M32, M64 = 2**32 - 1, 2**64 - 1
GOLDEN_RATIO = 0x9E3779B97F4A7C15


def mix64(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def key_words(key):
    return int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")


class Permutation:
    """A generalised Feistel network on Z_a x Z_b with cycle walking."""

    def __init__(self, n, key):
        lo, hi = key_words(key) if isinstance(key, bytes) else key
        root = math.isqrt(n - 1) + 1 if n > 1 else 1
        self.n = n
        self.a = max(2, root + root % 2)
        self.b = max(2, -(-n // self.a))
        doubles = 4
        while self.b**doubles < 2**36:
            doubles += 1
        self.keys = []
        for r in range(2 * doubles):
            word = mix64((lo + mix64((hi + GOLDEN_RATIO * (r + 1)) & M64)) & M64)
            self.keys.append((word & M32, word >> 32))

    def addend(self, x, round_, tweak, size):
        k1, k2 = self.keys[round_][0] ^ tweak[0], self.keys[round_][1] ^ tweak[1]
        h = (x + k1) & M32
        h = ((h ^ (h >> 16)) * 0x21F0AAAD) & M32
        h = ((h ^ (h >> 15) ^ k2) * 0xD35A2D97) & M32
        return (h * size) >> 32

    def forward(self, x, tweak=(0, 0)):
        while True:
            left, right = divmod(x, self.b)
            for r in range(0, len(self.keys), 2):
                left = (left + self.addend(right, r, tweak, self.a)) % self.a
                right = (right + self.addend(left, r + 1, tweak, self.b)) % self.b
            x = left * self.b + right
            if x < self.n:
                return x


class Cells:
    """Cells of `size`, each permuted by a member of one family; the last one, of another size, by one of its own."""

    def __init__(self, n, size, key):
        self.size, self.count = size, -(-n // size)
        self.lo, self.hi = key_words(key)
        self.full = Permutation(size, key)
        self.last = Permutation(n - (self.count - 1) * size, (mix64(self.lo), self.hi ^ M64))

    def within(self, cell, j):
        if cell == self.count - 1:
            return self.last.forward(j)
        word = mix64(self.lo ^ mix64((self.hi + GOLDEN_RATIO * (cell + 1)) & M64))
        return self.full.forward(j, (word & M32, word >> 32))


def groups(n, size, outer, inner, within):
    """All ids of an epoch: the groups in the outer order, one after the other."""
    cells = Cells(n, size, inner)
    order = Permutation(cells.count, outer)
    ids = []
    for slot in range(cells.count):
        cell = order.forward(slot)
        length = min(size, n - cell * size)
        ids += [cell * size + (cells.within(cell, j) if within else j) for j in range(length)]
    return ids


def windows(n, size, key, rotation):
    """All ids of an epoch: window after window, turned."""
    cells = Cells(n, size, key)
    return [(p // size * size + cells.within(p // size, p % size) + rotation) % n for p in range(n)]


def echo(n, carry, head, rest):
    """All positions of the epoch before, for the positions of this one."""
    carried = [n - carry + Permutation(carry, head).forward(p) for p in range(carry)]
    return carried + [Permutation(n - carry, rest).forward(p) for p in range(n - carry)]
