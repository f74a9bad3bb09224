"""Benchmarks, which measure and do not assert; `README.md` has the commands and the latest figures."""
