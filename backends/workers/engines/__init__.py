"""Engines inside worker environments. They import only the standard library, `backends.workers.frames` and packages
of their environment."""
