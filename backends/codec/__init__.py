"""Audio codecs for token rows (none is used before there are token rows)."""
