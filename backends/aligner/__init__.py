"""Forced alignment: finds the time of each word of a known text."""
