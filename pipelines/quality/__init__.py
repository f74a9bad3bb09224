"""Invariants of a dataset and figures of its speech."""
