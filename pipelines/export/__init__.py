"""Datasets in the forms that other people's tools read."""
