"""What did a run do? A saved report, printed; and the demonstration's figures side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.cli.output import write, write_table
from headrace.cost import format_bytes
from headrace.errors import HeadraceError, InputError, StateError
from headrace.runtime.report import Report


def load(path: Path) -> Report:
    """A report that `loader.report().save(path)` wrote."""
    try:
        report = Report.load(path)
        str(report)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; save a report with loader.report().save('run.json')"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not JSON ({error}); save a report with loader.report().save('run.json')"
        ) from error
    except HeadraceError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"{path} is a report, but not as a loader wrote it ({type(error).__name__}: {error}); save it again with "
            "loader.report().save('run.json')"
        ) from error
    return report


def write_comparison(result: dict[str, Any]) -> None:
    """What was predicted, what was measured, and what one sample per read would have done, over all epochs."""
    predicted, measured, bound = result["predicted"], result["report"]["measured"], result["bound"]
    plain, epochs = result["one_sample_per_read"], len(result["epochs"])
    waited = sum(epoch["waited_seconds"] for epoch in result["epochs"])
    rows = [
        [
            "predicted",
            *_reads(predicted["operations"], predicted["nbytes"]),
            f"{predicted['waited_seconds']:.2f} s",
        ],
        ["measured", *_reads(measured["operations"], measured["bytes"]), f"{waited:.2f} s"],
        ["no plan can read less than", "", format_bytes(bound["nbytes"]), ""],
        [
            "one sample per read, h5py" + (" (scaled)" if plain["scaled"] or epochs > 1 else ""),
            *_reads(result["samples"] * result["fields"] * epochs, result["nbytes"] * epochs),
            f"{plain['epoch_seconds'] * epochs:.2f} s",
        ],
    ]
    write_table([f"{epochs} epoch{'s' * (epochs > 1)}", "reads", "bytes", "loop waited"], rows)
    speed = f"{result['storage']} speed of the storage"
    write(f"Predicted reads and bytes are counted; predicted waiting rests on the {speed}.")


def _reads(operations: float, nbytes: float) -> list[str]:
    return [f"{operations:,.0f}", format_bytes(nbytes)]
