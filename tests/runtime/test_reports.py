"""A report's figures are those of the engine and of the plan, exactly."""

from __future__ import annotations

import json
import time

import pytest
from runs import DISK, run

import headrace as hr
from headrace.errors import StateError
from headrace.plan import expand, forecast


def loader(path, **options):
    given = {"global_batch_size": 12, "epochs": 3, "memory": "6500KiB", "storage": DISK, "shuffle": "exact"}
    return hr.Loader(path, **(given | options))


PLANS = [
    ("direct", "none"),
    ("direct", "static"),
    ("direct", "lru"),
    ("direct", "next-use"),
    ("window", "none"),
    ("sweep", "none"),
    ("sweep", "static"),
]


@pytest.mark.parametrize(("read", "residency"), PLANS)
def test_operations_and_bytes_equal_the_plans_own_sums_and_its_forecast(train, read, residency):
    with loader(train, read=read, residency=residency) as feed:
        run(feed, 3)
        figures = feed.report().to_dict()
        spans = list(expand(feed.plan))
        epochs = forecast(feed.plan, epochs=3)
    measured, submitted = figures["measured"], figures["submitted"]
    assert measured["operations"] == submitted["operations"] == sum(len(s.reads) for s in spans)
    assert measured["bytes"] == submitted["nbytes"] == sum(s.nbytes for s in spans)
    assert measured["pieces"] == submitted["pieces"] == sum(len(s.pieces) for s in spans)
    assert submitted["hits"] == sum(s.hits for s in spans)
    assert submitted["late"] == sum(s.late for s in spans)
    assert submitted["samples"] == sum(e.samples for e in epochs)
    assert submitted["operations"] == sum(e.operations for e in epochs)
    assert submitted["steps"] == measured["steps_taken"] == 51


def test_sums_go_on_over_an_early_break_and_a_new_pipeline(train):
    with loader(train) as feed:
        for batch in feed:
            if batch.step == 5:
                break
        first = feed.report().to_dict()["measured"]
        run(feed, 2)
        second = feed.report().to_dict()
    assert second["measured"]["bytes"] > first["bytes"] > 0
    assert [e["steps"] for e in second["epochs"]] == [6, 17, 17]
    assert [e["finished"] for e in second["epochs"]] == [False, True, True]


def train_for(seconds):
    """A training step that keeps the processor busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_every_epoch_has_its_steps_samples_and_times(train):
    with loader(train) as feed:
        start = time.perf_counter()
        for _ in range(3):
            for batch in feed:
                train_for(0.001)
                del batch
        elapsed = time.perf_counter() - start
        epochs = feed.report().to_dict()["epochs"]
    assert [(e["epoch"], e["steps"], e["samples"], e["finished"]) for e in epochs] == [
        (k, 17, 203, True) for k in range(3)
    ]
    assert all(e["loop_seconds"] >= 0.017 for e in epochs)
    assert sum(e["seconds"] for e in epochs) <= elapsed
    assert epochs[0]["first_batch_seconds"] > 0 and epochs[1]["first_batch_seconds"] is None
    last = epochs[-1]
    assert len(last["exposed_by_step"]) == 17
    assert sum(last["exposed_by_step"]) == pytest.approx(last["exposed_io_seconds"])
    assert max(last["exposed_by_step"]) == last["longest_wait_seconds"]


def test_waits_of_single_steps_are_kept_for_the_latest_passes_only(small):
    with hr.Loader(small, global_batch_size=10, memory="4MiB") as feed:
        run(feed, 6)
        epochs = feed.report().to_dict()["epochs"]
    assert [e["exposed_by_step"] is not None for e in epochs] == [False] * 4 + [True] * 2


def test_the_text_shows_what_the_dict_has(train):
    with loader(train) as feed:
        run(feed, 2)
        report = feed.report()
    text = str(report)
    data = report.to_dict()
    assert f"{data['measured']['operations']:,} operations" in text
    assert data["plan"]["label"] in text and data["plan"]["hash"][:8] in text
    assert text.count("\n") >= 6


def test_a_report_is_saved_and_loaded_again(train, tmp_path):
    with loader(train) as feed:
        run(feed, 1)
        report = feed.report()
    report.save(tmp_path / "run.json")
    again = hr.Report.load(tmp_path / "run.json")
    assert again.to_dict() == report.to_dict() == json.loads(report.to_json())
    assert str(again) == str(report)


def test_something_else_is_not_loaded_as_a_report(tmp_path):
    (tmp_path / "x.json").write_text('{"epochs": 3}')
    with pytest.raises(StateError, match="not a report"):
        hr.Report.load(tmp_path / "x.json")


def test_a_report_before_the_first_step_and_of_a_closed_loader_works(train):
    feed = loader(train)
    assert feed.report().to_dict()["epochs"] == []
    run(feed, 1)
    feed.close()
    assert feed.report().to_dict()["measured"]["operations"] > 0


def test_measuring_a_step_takes_two_readings_of_the_clock(train, monkeypatch):
    """And nothing of the engine: its counters are asked for once a pass."""
    from headrace.runtime import metrics
    from headrace.runtime.storage import StorageSource

    readings, asked = [], []
    clock, counters = time.perf_counter, StorageSource.counters
    monkeypatch.setattr(metrics.time, "perf_counter", lambda: readings.append(1) or clock())
    monkeypatch.setattr(StorageSource, "counters", lambda self: asked.append(1) or counters(self))
    with loader(train) as feed:
        before = len(readings), len(asked)
        run(feed, 1)
        steps = len(feed)
        assert len(readings) - before[0] <= 2 * (steps + 1) + 2
        assert len(asked) - before[1] <= 3
