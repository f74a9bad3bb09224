"""Engines that cannot share our environment: each in an environment of its own, in a process reached over a pipe.

`environments.py` says which there are and where, `install.py` makes one, `process.py` is our side of the pipe, and
`serve.py` with a file of `engines/` runs on the other side, where nothing of ours but `frames.py` can be imported.
"""
