"""Encodes dataset shards into token rows: audio codes of both voices, their text on frames, and the oracle's tokens."""
