"""Shards to token rows: both voices' codes, their text on frames, the oracle's tokens."""
