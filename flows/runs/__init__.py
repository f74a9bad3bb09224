"""Whole runs without Prefect: the steps of a refresh, of a training and of a server, in their order."""
