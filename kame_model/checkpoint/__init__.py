"""Checkpoint folders: exporting, loading, describing, and publishing them."""
