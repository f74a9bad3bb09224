"""Streaming speech recognition: transcribes a caller's speech while it is being said."""
