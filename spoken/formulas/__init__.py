"""Formulas, brackets and signs between numbers and letters, said from their neighbours."""
