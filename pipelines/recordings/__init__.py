"""Recordings of a server (`RecordedSession`) to a dataset: real callers in the place of script, speech and mixing."""
