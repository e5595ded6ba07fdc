"""torch's DataLoader with another import: the same batches, and every argument kept or refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import warnings
from collections import namedtuple
from pathlib import Path

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import BatchSampler, IterableDataset, SubsetRandomSampler, TensorDataset, get_worker_info  # noqa: E402
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402

import headrace as hr  # noqa: E402
from headrace.adapters.torch_tensors import to_tensors  # noqa: E402
from headrace.errors import (  # noqa: E402
    DataError,
    DeadlineError,
    HeadraceError,
    InputError,
    TransformError,
    UnsupportedError,
)
from headrace.torch import DataLoader  # noqa: E402

N = 75
Pair = namedtuple("Pair", "image label")


class Tuples:
    def __len__(self):
        return N

    def __getitem__(self, i):
        return torch.full((2, 3), float(i)), i


class Dicts(Tuples):
    def __getitem__(self, i):
        return {"x": np.full(4, i, np.float32), "deep": {"y": i, "name": f"sample {i}"}}


class Named(Tuples):
    def __getitem__(self, i):
        return Pair(torch.tensor([i]), float(i))


class Numbers(Tuples):
    def __getitem__(self, i):
        return i


class Many(Tuples):
    def __getitems__(self, ids):
        return [self[i] for i in ids]


class Changing(Tuples):
    scale = 1

    def __getitem__(self, i):
        return i * self.scale


class Bad(Tuples):
    def __getitem__(self, i):
        raise KeyError("nothing here")


class Who(Tuples):
    """Says which process and thread calls it, with torch's and NumPy's random numbers there."""

    def __getitem__(self, i):
        info = get_worker_info()
        number = -1 if info is None else info.id if info.dataset is self else -2
        return i, os.getpid(), threading.get_ident(), number, torch.rand(()).item(), np.random.rand(), random.random()


class Records(Tuples):
    """Keeps a file open once it was asked, as many datasets do: seek and read are two calls."""

    def __init__(self, path, n):
        self.path, self.n, self.file = path, n, None

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.file is None:
            self.file = open(self.path, "rb", buffering=0)  # noqa: SIM115
        self.file.seek(i * 8)
        return int.from_bytes(self.file.read(8), "little")


def same(a, b):
    """Equal in type, structure, dtype and value."""
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """75 samples with fields of several dtypes; `y` is the id."""
    path = tmp_path_factory.mktemp("files") / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.repeat(np.arange(N, dtype=">f4"), 6).reshape(N, 2, 3)
        file["y"] = np.arange(N)
        file["u"] = np.arange(N).astype("u2")
        file["b"] = np.arange(N) % 2 == 0
        file["h"] = np.arange(N).astype("f2")
    return path


def ids(loader):
    """The ids of an epoch, values checked."""
    out = []
    for batch in loader:
        assert (batch["x"] == batch["y"][:, None, None]).all()
        out += batch["y"].tolist()
    return out


MAPS = [(d, kind) for d in (Tuples(), Dicts(), Named(), Numbers(), Many()) for kind in (None, "threads")]


@pytest.mark.parametrize(("dataset", "kind"), [*MAPS, (Dicts(), "processes")])
def test_batches_of_a_map_dataset_equal_those_of_torchs_own_loader(dataset, kind):
    workers = {} if kind is None else {"num_workers": 2, "workers_kind": kind, "persistent_workers": True}
    ours = DataLoader(dataset, batch_size=16, **workers)
    theirs = TorchLoader(dataset, batch_size=16)
    assert len(ours) == len(theirs)
    for _ in range(2):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    ours.close()


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 75, 80])
def test_lengths_are_those_of_torch(batch_size, drop_last):
    theirs = TorchLoader(Numbers(), batch_size=batch_size, drop_last=drop_last)
    if len(theirs) == 0:
        with pytest.raises(InputError, match="leaves no step"):
            len(DataLoader(Numbers(), batch_size=batch_size, drop_last=drop_last))
        return
    ours = DataLoader(Numbers(), batch_size=batch_size, drop_last=drop_last)
    assert len(ours) == len(theirs)
    assert [len(b) for b in ours] == [len(b) for b in theirs]


def test_a_tensor_dataset_and_a_collate_function_work_as_they_do_in_torch():
    data = TensorDataset(torch.arange(20.0), torch.arange(20))

    def collate(samples):
        return torch.stack([a for a, _ in samples]).sum(), [int(b) for _, b in samples]

    for a, b in zip(
        DataLoader(data, batch_size=6, collate_fn=collate),
        TorchLoader(data, batch_size=6, collate_fn=collate),
        strict=True,
    ):
        same(a, b)


def test_a_sampler_is_the_order_of_every_epoch():
    order = [5, 3, 3, 70, 0, 1, 2]
    for loader in (DataLoader, TorchLoader):
        made = loader(Numbers(), batch_size=3, sampler=order)
        assert [b.tolist() for b in made] == [[5, 3, 3], [70, 0, 1], [2]]
        assert made.sampler is order


def test_a_random_sampler_gives_another_order_each_epoch():
    sampler = SubsetRandomSampler(range(40), generator=torch.Generator().manual_seed(1))
    loader = DataLoader(Numbers(), batch_size=8, sampler=sampler)
    first, second = ([i for b in loader for i in b.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(40)) and first != second


def test_torchs_own_batch_sampler_is_taken_and_any_other_refused():
    loader = DataLoader(Numbers(), batch_sampler=BatchSampler(range(10, 31), batch_size=4, drop_last=True))
    assert [b.tolist() for b in loader] == [list(range(k, k + 4)) for k in range(10, 30, 4)]
    assert (loader.batch_size, loader.drop_last) == (4, True)
    with pytest.raises(UnsupportedError, match="BatchSampler"):
        DataLoader(Numbers(), batch_sampler=[[1, 2], [3]])


def test_files_come_as_tensors_over_the_loaders_own_memory(files):
    with DataLoader(files, batch_size=16, memory="16MiB") as loader:
        batch = next(iter(loader))
    want = {"x": torch.float32, "y": torch.int64, "u": torch.uint16, "b": torch.bool, "h": torch.float16}
    assert {name: batch[name].dtype for name in batch} == want
    assert batch["x"].shape == (16, 2, 3)
    arrays = next(iter(hr.Loader(files, global_batch_size=16, epochs=1, memory="16MiB")))
    for name, tensor in to_tensors(arrays).items():
        assert np.shares_memory(tensor.numpy(), arrays[name])


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 2}, {"prefetch_factor": 3}, {"num_workers": 1, "prefetch_factor": 2}]
)
def test_shuffled_files_are_delivered_once_an_epoch_in_a_new_order(files, options):
    with DataLoader(files, batch_size=16, shuffle=True, memory="16MiB", **options) as loader:
        epochs = [ids(loader) for _ in range(3)]
    assert all(sorted(e) == list(range(N)) for e in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_without_shuffle_files_come_in_their_order(files):
    assert ids(DataLoader(files, batch_size=16, memory="16MiB")) == list(range(N))


def test_the_prefetch_factor_is_the_number_of_batches_prepared_ahead(files):
    loader = DataLoader(files, batch_size=4, prefetch_factor=3, num_workers=2, memory="16MiB")
    assert loader.plan.switches.batches == 6


def test_headraces_own_arguments_are_passed_on(files):
    with DataLoader(
        files, batch_size=16, shuffle="exact", seed=5, memory="16MiB", epochs=2, residency="none", read="direct",
        storage=hr.Storage(100, 1e8), transform={"y": lambda y: -y}, on_error="skip",
    ) as loader:  # fmt: skip
        got = [int(-y) for batch in loader for y in batch["y"]]
        assert loader.plan.switches.residency == "none"
    want = hr.Loader(files, global_batch_size=16, seed=5, memory="16MiB", epochs=1)
    assert got == [i for batch in want for i in batch.ids.tolist()]


def test_a_collate_function_over_files_is_given_samples_as_dicts_of_tensors(files):
    def collate(samples):
        assert all(isinstance(s["x"], torch.Tensor) for s in samples)
        return torch.stack([s["x"] for s in samples]), [int(s["y"]) for s in samples]

    for workers in (0, 2):
        with DataLoader(files, batch_size=16, collate_fn=collate, num_workers=workers, memory="16MiB") as loader:
            for x, y in loader:
                assert (x[:, 0, 0] == torch.tensor(y)).all()


def test_a_transform_without_a_return_is_an_error_but_a_collate_fn_may_give_none_as_in_torch(files):
    for given in (files, Numbers()):
        with (
            DataLoader(given, batch_size=16, transform=lambda batch: None) as loader,
            pytest.raises(TransformError, match="returned None"),
        ):
            list(loader)
        with DataLoader(given, batch_size=16, collate_fn=lambda samples: None) as loader:
            assert list(loader) == [None] * 5


def test_ragged_fields_are_lists_of_tensors(tmp_path):
    for i in range(12):
        np.save(tmp_path / f"{i:02}.npy", np.full((i % 3 + 1, 2), i))
    for batch in DataLoader(tmp_path, batch_size=5, memory="16MiB"):
        (values,) = batch.values()
        assert [v.shape[0] for v in values] == [int(v[0, 0]) % 3 + 1 for v in values]


def test_a_dtype_that_torch_has_not_is_refused_by_field(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["name"] = np.array([b"abc", b"de"])
    with pytest.raises(UnsupportedError, match="field 'name' has dtype"):
        next(iter(DataLoader(tmp_path / "s.h5", memory="16MiB")))


def test_a_state_resumes_at_any_step_also_of_a_map_dataset(files):
    for make in (
        lambda: DataLoader(files, batch_size=16, shuffle=True, memory="16MiB"),
        lambda: DataLoader(Dicts(), batch_size=16, shuffle=True, num_workers=2),
    ):
        with make() as loader:
            it = iter(loader)
            first = [next(it) for _ in range(2)]
            state = json.loads(json.dumps(loader.state_dict()))
            rest = list(it)
        with make() as loader:
            loader.load_state_dict(state)
            for a, b in zip(loader, rest, strict=True):
                same(a, b)
        assert len(first) + len(rest) == 5


def test_set_epoch_repeats_and_skips_epochs(files):
    with DataLoader(files, batch_size=16, shuffle=True, memory="16MiB") as loader:
        epochs = [ids(loader) for _ in range(3)]
        loader.set_epoch(1)
        assert ids(loader) == epochs[1]
        loader.sampler.set_epoch(0)
        assert list(loader.sampler) == epochs[0] == ids(loader)
        assert len(loader.sampler) == N


def test_an_early_break_is_safe(files):
    with DataLoader(files, batch_size=16, shuffle=True, memory="16MiB") as loader:
        for _ in range(5):
            for _ in loader:
                break
        assert sorted(ids(loader)) == list(range(N))
        assert loader.epoch == 6


def test_others_find_the_attributes_that_they_look_for(files):
    def start(worker):
        pass

    dataset = hr.open(files)
    loader = DataLoader(
        dataset, 16, True, num_workers=2, drop_last=True, timeout=20, worker_init_fn=start, prefetch_factor=2,
        transform={"y": abs},
    )  # fmt: skip
    assert loader.dataset is dataset
    assert (loader.batch_size, loader.num_workers, loader.drop_last, loader.timeout) == (16, 2, True, 20)
    assert (loader.prefetch_factor, loader.worker_init_fn, loader.pin_memory) == (2, start, False)
    assert (loader.batch_sampler, loader.collate_fn, loader.generator) == (None, None, None)
    assert (loader.persistent_workers, loader.multiprocessing_context) == (False, None)


def test_a_generator_fixes_the_shuffle_as_in_torch():
    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        return [i for b in DataLoader(Numbers(), batch_size=8, shuffle=True, generator=generator) for i in b.tolist()]

    assert run(3) == run(3) != run(4)


def test_every_worker_is_started_once_with_its_number():
    seen = []
    with DataLoader(
        Numbers(), batch_size=2, num_workers=3, worker_init_fn=seen.append, persistent_workers=True,
        workers_kind="threads",
    ) as loader:  # fmt: skip
        list(loader)
        list(loader)
    assert len(seen) == len(set(seen)) and set(seen) <= {0, 1, 2} and seen


def test_workers_of_a_map_dataset_are_processes_with_a_copy_each_as_in_torch():
    """`__getitem__` of one object is never called by two threads, whatever it keeps between two calls."""
    with DataLoader(Who(), batch_size=5, num_workers=2) as loader:
        epochs = [list(loader) for _ in range(2)]
    callers = [{(int(p), int(t), int(k)) for b in epoch for p, t, k in zip(*b[1:4], strict=True)} for epoch in epochs]
    for found in callers:
        assert len({pid for pid, _, _ in found}) == len(found) and os.getpid() not in {pid for pid, _, _ in found}
        assert {number for _, _, number in found} <= {0, 1}
    for place in (4, 5, 6):
        drawn = [float(value) for epoch in epochs for batch in epoch for value in batch[place]]
        assert len(set(drawn)) > 0.9 * len(drawn), "workers or epochs draw the same random numbers"


def test_a_dataset_that_keeps_a_file_open_gives_every_sample_its_own_bytes(tmp_path):
    n = 4000
    np.arange(n, dtype="<i8").tofile(tmp_path / "records")
    with DataLoader(Records(tmp_path / "records", n), batch_size=100, shuffle=True, num_workers=3) as loader:
        order = loader.loader.order.ids(0, 0, n)
        assert torch.cat(list(loader)).tolist() == order.tolist()


def test_threads_share_the_dataset_only_if_they_are_asked_for():
    with DataLoader(Who(), batch_size=5, num_workers=2, workers_kind="threads") as loader:
        assert {int(pid) for batch in loader for pid in batch[1]} == {os.getpid()}


def test_a_dataset_that_no_process_can_have_is_refused_with_the_way_out():
    class Local(Numbers):
        pass

    with (
        DataLoader(Local(), num_workers=2) as loader,
        pytest.raises(InputError, match=r"workers_kind='threads' if several threads may .*num_workers=0"),
    ):
        iter(loader)


@pytest.mark.parametrize(
    "option", [{"worker_init_fn": print}, {"multiprocessing_context": "spawn"}, {"workers_kind": "processes"}]
)
def test_arguments_about_workers_that_files_have_no_work_for_warn_and_change_nothing(files, option):
    """Code that comes from torch runs unchanged, and nobody believes in an effect that is not there."""
    with pytest.warns(UserWarning, match=f"{next(iter(option))}=: without effect here.*collate_fn=") as caught:
        loader = DataLoader(files, batch_size=16, num_workers=1, memory="16MiB", **option)
    assert caught[0].filename == __file__
    assert ids(loader) == list(range(N))


def test_a_start_function_is_called_for_files_whose_batches_workers_transform(files):
    seen = []
    with DataLoader(
        files, batch_size=16, num_workers=1, memory="16MiB", worker_init_fn=seen.append, transform={"y": abs}
    ) as loader:
        for _ in range(2):
            assert ids(loader) == list(range(N))
    assert seen == [0], "the workers of files persist across epochs"


def test_changes_to_a_map_dataset_between_epochs_are_seen_unless_workers_persist():
    data = Changing()
    with DataLoader(data, batch_size=10, num_workers=2) as loader:
        assert sum(int(b.sum()) for b in loader) == sum(range(N))
        data.scale = 2
        assert sum(int(b.sum()) for b in loader) == 2 * sum(range(N))


def test_without_an_accelerator_pin_memory_warns_as_torch_does_and_delivers_anyway(files):
    if torch.cuda.is_available():
        pytest.skip("this machine has an accelerator")
    with pytest.warns(UserWarning, match="no accelerator is found"):
        loader = DataLoader(files, batch_size=16, pin_memory=True, memory="16MiB")
    assert ids(loader) == list(range(N))


def test_pinning_goes_into_the_containers_that_torch_goes_into():
    from headrace.adapters.torch_tensors import pin

    class Pins:
        def pin_memory(self):
            return "pinned"

    got = pin({"a": Pins(), "b": [Pins(), 3], "c": Pair(Pins(), "text"), "d": (Pins(),)})
    assert got == {"a": "pinned", "b": ["pinned", 3], "c": Pair("pinned", "text"), "d": ("pinned",)}


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dataset": Stream()}, UnsupportedError, "iterable dataset"),
        ({"dataset": iter([1])}, UnsupportedError, "iterable dataset"),
        ({"batch_size": None}, UnsupportedError, "batch_size=None"),
        ({"batch_size": 0}, InputError, "batch_size=0"),
        ({"in_order": False}, UnsupportedError, "in_order"),
        ({"pin_memory_device": "cuda"}, UnsupportedError, "pin_memory_device"),
        ({"shuffle": True, "sampler": [1]}, InputError, "both name the order"),
        ({"num_workers": -1}, InputError, "num_workers"),
        ({"timeout": -1}, InputError, "timeout"),
        ({"worker_init_fn": print}, InputError, "worker_init_fn= needs workers"),
        ({"persistent_workers": True}, InputError, "persistent_workers=True needs workers"),
        ({"prefetch_factor": 2}, InputError, "needs workers"),
        ({"prefetch_factor": 0, "num_workers": 1}, InputError, "prefetch_factor"),
        ({"multiprocessing_context": "spawn"}, InputError, "needs workers"),
        ({"multiprocessing_context": "fork", "num_workers": 1}, UnsupportedError, "fork"),
        ({"multiprocessing_context": "spawn", "num_workers": 1, "workers_kind": "threads"}, InputError, "processes"),
        ({"generator": torch.Generator()}, InputError, "shuffle is off"),
        ({"generator": torch.Generator(), "shuffle": True, "seed": 3}, InputError, "generator= and seed="),
        ({"global_batch_size": 8}, InputError, "per rank"),
        ({"batch_sampler": BatchSampler([1], 1, False), "batch_size": 4}, InputError, "it sets them"),
        ({"transform": {"x": abs}}, UnsupportedError, "no fields"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_the_reason(options, error, message):
    with pytest.raises(error, match=message):
        DataLoader(**({"dataset": Numbers()} | options))


@pytest.mark.parametrize(
    ("name", "message"), [("suffle", "shuffle="), ("batchsize", "batch_size="), ("num_worker", "num_workers=")]
)
def test_an_argument_that_nobody_knows_is_refused_with_the_nearest_one(files, name, message):
    for dataset in (files, Numbers()):
        with pytest.raises(InputError, match=f"{name}=: no argument has this name; did you mean {message}"):
            DataLoader(dataset, **{name: 1})


def test_errors_of_a_dataset_and_of_a_collate_function_have_the_users_own_as_their_cause():
    with pytest.raises(DataError, match="nothing here") as caught:
        next(iter(DataLoader(Bad(), batch_size=4, num_workers=2)))
    assert isinstance(caught.value.__cause__, KeyError)

    def collate(samples):
        raise ValueError("cannot join")

    with pytest.raises(TransformError, match="cannot join"):
        next(iter(DataLoader(Numbers(), batch_size=4, collate_fn=collate)))


def test_a_timeout_is_kept(monkeypatch):
    import threading

    monkeypatch.setattr("headrace.runtime.pipeline.CLOSE_SECONDS", 0.1)
    block = threading.Event()

    class Slow(Numbers):
        def __getitem__(self, i):
            block.wait(30)
            return i

    loader = DataLoader(Slow(), batch_size=4, num_workers=1, timeout=0.2, workers_kind="threads")
    with pytest.warns(ResourceWarning), pytest.raises(DeadlineError, match=r"timeout=0\.2"):
        next(iter(loader))
    block.set()


def test_a_training_loop_learns(files):
    """Nothing but the import differs from a loop over torch's loader."""
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with DataLoader(files, batch_size=15, shuffle=True, memory="16MiB") as loader:
        for _ in range(4):
            for batch in loader:
                optimiser.zero_grad()
                loss = (model(batch["x"].flatten(1) / N).squeeze(1) - batch["y"] / N).square().mean()
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
    assert losses[-1] < losses[0] / 10


def test_a_world_of_several_ranks_is_refused_for_now(files, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UnsupportedError, match="torchrun started 4 ranks"):
        DataLoader(files)
    with pytest.raises(UnsupportedError, match="rank 1 of 4"):
        len(hr.Loader(files, global_batch_size=4))
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(UnsupportedError, match=r"torch\.distributed has 2 ranks"):
        DataLoader(files)


def test_headrace_torch_is_found_as_an_attribute_without_importing_it():
    code = "import headrace as hr, sys; assert 'torch' not in sys.modules; print(hr.torch.DataLoader.__name__)"
    environment = {"PYTHONPATH": str(Path(hr.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.strip() == "DataLoader", done.stderr


def test_every_argument_of_torchs_loader_is_an_argument_here():
    import inspect

    theirs = set(inspect.signature(TorchLoader.__init__).parameters)
    ours = set(inspect.signature(DataLoader.__init__).parameters)
    assert theirs <= ours


def test_refusals_are_headraces_own_errors():
    assert issubclass(UnsupportedError, HeadraceError) and issubclass(UnsupportedError, ValueError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(Numbers())
