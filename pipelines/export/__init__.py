"""Exports datasets to the formats of other tools."""
