"""Settings that all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples in every run: a test that fails fails again. `short` is for builds that run slowly (sanitizers).
settings.register_profile("default", deadline=None, derandomize=True, database=None)
settings.register_profile("short", settings.get_profile("default"), max_examples=15)
settings.register_profile("explore", deadline=None, max_examples=1000, database=None)
# No test measures the storage unless it says so, and none writes to the cache folder of whoever runs it.
os.environ["HEADRACE_PROBE"] = "0"
os.environ["HEADRACE_CACHE"] = "/dev/null/headrace-tests"

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
