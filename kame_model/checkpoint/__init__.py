"""Checkpoint folders that others load: written, read, described, and started from."""
