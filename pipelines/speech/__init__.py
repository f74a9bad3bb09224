"""Dialogues to clean speech, and clean speech to two channels."""
