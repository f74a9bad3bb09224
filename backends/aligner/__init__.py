"""Forced aligners."""
