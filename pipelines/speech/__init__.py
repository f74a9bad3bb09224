"""The speech stage: synthesises clean speech for dialogues."""
