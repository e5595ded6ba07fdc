"""Headrace plans a training run's I/O the way a database plans a query."""
