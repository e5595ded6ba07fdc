"""The torch adapter under the name that people try first: `from headrace.torch import DataLoader`."""

from headrace.adapters.torch import DataLoader

__all__ = ["DataLoader"]
