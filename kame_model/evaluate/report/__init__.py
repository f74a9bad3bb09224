"""Folders of results, intervals and plots of every evaluation; `kame evaluate compare` and `table`."""
