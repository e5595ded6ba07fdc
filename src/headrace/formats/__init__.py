"""Where is sample i? One file per format, one line per format in `registry`; everything else works on their layouts."""

from headrace.formats.dataset import Dataset
from headrace.formats.inspect import inspect
from headrace.formats.map import MapDataset
from headrace.formats.opening import concat, open

__all__ = ["Dataset", "MapDataset", "concat", "inspect", "open"]
