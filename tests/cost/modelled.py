"""A storage with known figures on a virtual clock, for the probe to measure."""

from __future__ import annotations

import heapq

import numpy as np

from headrace.cost.estimate import Burst
from headrace.cost.probe import Spot


class ModelledDevice:
    """Serves reads as `iops`, `bandwidth` and `latency` say: the slowest of the three decides when a read ends.

    `spots` and `read` keep what was asked; `cached` is the share of places that are in the page cache.
    """

    def __init__(self, *, iops, bandwidth, latency, direct=True, tells=True, cached=0.0, limit=1e9, size=1 << 40):
        self.iops, self.bandwidth, self.latency = iops, bandwidth, latency
        self.direct, self.tells, self.cached = direct, tells, cached
        self.own, self.size = limit, size
        self.now = 0.0
        self.bursts = []

    def clock(self):
        return self.now

    def random(self, *, nbytes, most, fresh):
        return self._some(nbytes, most, fresh)

    def sequential(self, *, nbytes, most, fresh):
        return self._some(nbytes, most, fresh)

    def limit(self, *, depth):
        return self.own

    def _some(self, nbytes, most, fresh):
        there = int(self.size * (1 - self.cached if fresh else 1)) // nbytes
        return [Spot(0, k * nbytes, nbytes) for k in range(min(most, there))]

    def burst(self, spots, *, depth, seconds, direct):
        begun, ended, total = [], [], 0
        free = [0.0] * depth
        counted = moved = 0.0
        for spot in spots:
            start = heapq.heappop(free)
            if start >= seconds:
                break
            counted = max(counted, start) + 1 / self.iops
            moved = max(moved, start) + spot.nbytes / self.bandwidth
            end = max(start + self.latency, counted, moved)
            heapq.heappush(free, end)
            begun.append(start)
            ended.append(end)
            total += spot.nbytes
        self.bursts.append((depth, direct, total, seconds))
        self.now += max(ended, default=0.0)
        return Burst(np.array(begun), np.array(ended), total)
