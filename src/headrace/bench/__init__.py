"""How fast is this loader beside the others, and beside what the machine can do at all?

Each contender runs in a process of its own, so that imports, caches and leaks do not mix, over the same dataset, for
the same number of epochs, from open to last batch. What it delivers is checked; one that is wrong has no rate.

The contract of a contender's process
-------------------------------------
The command is `python -m headrace.bench.contender SPEC.json`; `SPEC.json` holds a `Spec` as JSON. Other programs can
take part by the same contract: `Spec.program` is then what stands before `SPEC.json`. The process prints ONE line of
JSON (its last line of output) with

    {"epochs": [seconds, …], "first": s, "bytes": n, "ids_ok": true or "what is wrong", "cpu": s, "peak_private": n, …}

- `epochs`: wall seconds; the first epoch starts when the dataset is opened, each later one at the last batch before it.
  Imports come before. Checks come after.
- `first`: seconds from open to the first batch. `bytes`: bytes of the samples that were delivered, over all epochs.
- `ids_ok`: true, where every epoch delivered each sample exactly once and a seeded choice of rows is, byte for byte,
  what the format's own library reads from the file; otherwise a sentence (or false).
- `cpu`: seconds of the process and its workers. `peak_private`: bytes of memory of their own, at most, beyond
  `base_private`, which they had before the dataset was opened; null where the kernel does not tell.
- `waits`: per epoch, the seconds that the loop stood waiting for a batch. `cut`: whether the cap on seconds ended it.
- `cached`: the share of the files that was in the page cache before the dataset was opened; null where not known.
- `notes`: what a contender says of itself, like its plan. `error`: why there is nothing of the above.

Conditions (a cold cache, a cgroup, a throttled disk) are put around that command: `run_contender(spec, wrap=…)` gives
`wrap` the argv. It returns the argv to run instead, or, where it has run it itself, the standard output as a string.
"""

from headrace.bench.running import Bench, run_bench, run_contender
from headrace.bench.values import Result, Spec

__all__ = ["Bench", "Result", "Spec", "run_bench", "run_contender"]
