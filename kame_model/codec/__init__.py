"""Learns codebooks from a dataset's speech, and measures the quality of a codec on it."""
