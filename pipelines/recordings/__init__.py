"""Makes datasets from recordings of a server (`RecordedSession`): real callers instead of script, speech and mixing."""
