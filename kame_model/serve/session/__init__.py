"""One caller's conversation: what is heard and said, its events, and the recording of callers who agree."""
