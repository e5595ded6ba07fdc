"""Each contender delivers every sample of every epoch, as the file has it; one that does not is found out."""

from __future__ import annotations

import numpy as np
import pytest
from bench_data import KINDS, make_dataset, spec_of

from headrace.bench import contender as process
from headrace.bench.contenders import CONTENDERS, Contender, Delivered, choose, find_contender
from headrace.bench.values import Result, Spec
from headrace.errors import InputError, UnsupportedError

NAMES = [name for name in CONTENDERS if not name.endswith("-4")]

# A forked worker of torch in a process that has threads: newer Pythons warn, and this is how torch works.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module", params=KINDS)
def data(request, tmp_path_factory):
    """A spec without a contender, and the layout of its dataset."""
    folder = tmp_path_factory.mktemp("bench") / "data"
    return spec_of(*make_dataset(request.param, folder))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One small dataset of two files."""
    return spec_of(*make_dataset("two files", tmp_path_factory.mktemp("bench") / "data"))


@pytest.mark.parametrize("name", NAMES)
def test_a_contender_delivers_every_sample_as_it_is_in_the_file(data, name):
    """The check of ids and bytes passes, and the bytes are those of the dataset."""
    spec, layout = data
    one = find_contender(name)
    why = one.fits(layout)
    if why:
        pytest.skip(f"{name}: {why}")
    answer = process.run(spec.of(name))
    assert answer["ids_ok"] is True
    assert len(answer["epochs"]) == len(answer["waits"]) == 2
    once = sum(file.size for file in layout.files) if name == "sequential" else layout.nbytes
    assert answer["bytes"] == 2 * once
    assert 0 < answer["first"] <= sum(answer["epochs"])
    assert answer["cpu"] >= 0
    assert answer["cached"] is None or 0 <= answer["cached"] <= 1
    assert answer["peak_private"] is None or answer["peak_private"] >= 0
    assert Result.from_answer(name, answer).right


def test_the_order_of_every_contender_is_a_shuffle_and_another_one_each_epoch(small):
    """Nobody gains by reading in the order of the file."""
    spec, layout = small
    for name in ("headrace", "memmap", "threads", "torch-item-0", "torch-batched-0"):
        delivery = find_contender(name).prepare(spec.of(name))()
        try:
            epochs = [np.concatenate([np.array(b.ids) for b in delivery.epoch(e)]) for e in range(2)]
        finally:
            delivery.close()
        assert sorted(epochs[0]) == list(range(layout.n)), name
        assert (epochs[0] != epochs[1]).any(), name
        assert (epochs[0] != np.arange(layout.n)).any(), name


def broken(change):
    """A contender that reads with np.memmap and spoils what it delivers."""

    class Spoiled:
        def __init__(self, delivery):
            self.delivery = delivery
            self.close, self.notes = delivery.close, delivery.notes

        def epoch(self, number):
            for batch in self.delivery.epoch(number):
                yield change(number, batch)

    class Broken(Contender):
        def prepare(self, spec):
            return lambda: Spoiled(super(Broken, self).prepare(spec)())

    return Broken("broken", "spoils what it reads", "plain", "memmap")


def drop_one(number, batch):
    """The second epoch lacks sample 7."""
    keep = batch.ids != 7 if number else batch.ids >= 0
    return Delivered(batch.ids[keep], {name: value[keep] for name, value in batch.values.items()})


def swap_bytes(number, batch):
    """Two bytes of every row of one field have changed places."""
    values = {name: np.array(value) for name, value in batch.values.items()}
    raw = values["trace"].reshape(len(batch.ids), -1).view(np.uint8)
    raw[:, [8, 13]] = raw[:, [13, 8]]
    return Delivered(batch.ids, values)


def rotate_ids(number, batch):
    """Every row goes by the id of its neighbour: the set of ids is whole."""
    return Delivered(np.roll(batch.ids, 1), batch.values)


def same_again(number, batch):
    """Sample 3 takes the place of sample 7."""
    return Delivered(np.where(batch.ids == 7, 3, batch.ids), batch.values)


def beyond(number, batch):
    """An id that does not exist."""
    return Delivered(batch.ids + 1, batch.values)


def other_dtype(number, batch):
    """Values as float64."""
    return Delivered(batch.ids, {name: value.astype(np.float64) for name, value in batch.values.items()})


def one_field(number, batch):
    """A field is missing."""
    return Delivered(batch.ids, {"trace": batch.values["trace"]})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (drop_one, "epoch 1: 1 of 50 samples did not come, first 7"),
        (swap_bytes, "of field 'trace' is not what the file holds"),
        (rotate_ids, "is not what the file holds"),
        (same_again, "1 samples came more than once, first 3; 1 of 50 samples did not come, first 7"),
        (beyond, "outside of 0..49"),
        (other_dtype, "is float64[19] instead of float32[19]"),
        (one_field, "fields ['trace'] instead of ['parameters', 'trace']"),
    ],
)
def test_a_broken_contender_is_wrong_and_has_no_rate(small, monkeypatch, change, complaint):
    """Whatever its speed."""
    spec, _ = small
    monkeypatch.setitem(CONTENDERS, "broken", broken(change))
    answer = process.run(spec.of("broken"))
    assert complaint in answer["ids_ok"]
    result = Result.from_answer("broken", answer)
    assert result.verdict.startswith("WRONG: ")
    assert result.rate is None


def test_a_run_is_cut_when_its_seconds_are_over_and_what_came_is_still_checked(small, monkeypatch):
    """The part of an epoch that came has no sample twice; it is marked, and has no rate of later epochs."""
    spec, layout = small
    answer = process.run(Spec(**{**vars(spec), "contender": "memmap", "seconds": 0.0}))
    assert answer["cut"] is True
    assert answer["ids_ok"] is True
    assert 0 < answer["bytes"] < layout.nbytes
    assert Result.from_answer("memmap", answer).later_rate is None
    monkeypatch.setitem(CONTENDERS, "broken", broken(swap_bytes))
    whole = Spec(**{**vars(spec), "contender": "broken", "seconds": 0.0, "batch_size": layout.n})
    assert "is not what the file holds" in process.run(whole)["ids_ok"]


def test_a_loop_with_a_step_of_its_own_waits_less_than_it_takes(small):
    """The time of the step is not counted as waiting."""
    spec, _ = small
    answer = process.run(Spec(**{**vars(spec), "contender": "memmap", "step_seconds": 0.005}))
    assert sum(answer["epochs"]) >= sum(answer["waits"]) + 2 * 4 * 0.005


def test_this_loader_says_which_plan_it_followed(small):
    """With what was predicted and counted, for the JSON."""
    spec, _ = small
    notes = process.run(spec.of("headrace"))["notes"]
    assert notes["plan"]
    assert notes["predicted_operations"] == notes["operations"] > 0
    assert len(notes["predicted_seconds"]) == 2


def test_contenders_are_chosen_by_name_or_pattern(small):
    """What does not fit the data is named with its reason."""
    _, layout = small
    chosen, left = choose(["torch-item-*", "headrace"], layout)
    assert [one.name for one in chosen] == ["headrace", "torch-item-0", "torch-item-2", "torch-item-4"]
    assert left == {}
    with pytest.raises(InputError, match="--only=tf is no contender"):
        choose(["tf"], layout)
    with pytest.raises(InputError, match="contender 'tf' is not known"):
        find_contender("tf")


def test_what_does_not_fit_the_data_is_left_out_with_a_reason(tmp_path):
    """Hyperslabs of .npy files do not exist."""
    _, layout = spec_of(*make_dataset("folder of npy", tmp_path / "data"))
    chosen, left = choose([], layout)
    assert "headrace" in [one.name for one in chosen]
    assert set(left) == {"torch-slabs-0", "torch-slabs-2", "torch-slabs-4"}
    with pytest.raises(InputError, match="hyperslabs are HDF5's"):
        choose(["torch-slabs-*"], layout)


def test_ragged_samples_are_refused(tmp_path):
    """The others could not make a batch of them."""
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.zeros(number + 1))
    with pytest.raises(UnsupportedError, match="ragged"):
        spec_of([str(tmp_path)], {})
