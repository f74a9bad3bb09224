"""The front-end: a stock moshi `LMModel` that listens to an oracle, its loss, its presets, and its streaming step."""
