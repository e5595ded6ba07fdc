"""What does code find in a worker process that it would find in one of torch's?

The worker's number and copy of the dataset in `torch.utils.data.get_worker_info()`, one thread for torch's own kernels,
and seeds of its own: processes that draw the same random numbers would augment every batch alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker


class WorkerStart:
    """Prepares a worker process, then calls the user's `worker_init_fn` with the worker's number.

    The seed is drawn from torch's generator whenever the workers are started, as torch does: all of them start from one
    pickle, each adds its number.
    """

    def __init__(self, function: Callable[[int], object] | None, *, dataset: Any, workers: int, seed: int = 0) -> None:
        self._function = function
        self._dataset = dataset
        self._workers = workers
        self._seed = seed

    def __call__(self, worker: int) -> None:
        """Prepare this process as worker number `worker`."""
        seed = self._seed + worker
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=worker, num_workers=self._workers, seed=seed, dataset=self._dataset
        )
        if self._function is not None:
            self._function(worker)

    def __reduce__(self) -> tuple[Any, ...]:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        return _start, (self._function, self._dataset, self._workers, seed)


@contextmanager
def no_worker_info() -> Iterator[None]:
    """Without it, `default_collate` puts batches into torch's shared memory, from which they would be copied again."""
    info, torch_worker._worker_info = torch_worker._worker_info, None
    try:
        yield
    finally:
        torch_worker._worker_info = info


def _start(function: Callable[[int], object] | None, dataset: Any, workers: int, seed: int) -> WorkerStart:
    return WorkerStart(function, dataset=dataset, workers=workers, seed=seed)
