"""Checks the invariants of a dataset, and compares transcripts with the spoken text."""
