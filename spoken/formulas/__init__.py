"""Formulas, brackets and signs between numbers and letters, read according to their neighbours."""
