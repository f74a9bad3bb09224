"""Worker environments: engines whose packages conflict with KAME's run in their own process, reached over a pipe.

`environments.py` lists and locates the environments, `install.py` installs one, `process.py` is our side of the pipe,
and `serve.py` with a file of `engines/` runs on the other side, where only `frames.py` of this project can be imported.
"""
