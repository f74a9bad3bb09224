"""Prefect flows, their typed parameters, and the command `kame`."""
