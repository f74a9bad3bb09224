"""The speech stage: synthesises clean speech for dialogues (speech synthesis, text-to-speech)."""
