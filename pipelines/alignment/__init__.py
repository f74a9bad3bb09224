"""Clean speech to word times."""
