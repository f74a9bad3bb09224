"""Dialogues to clean speech."""
