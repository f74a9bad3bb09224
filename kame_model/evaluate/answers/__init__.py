"""Scores answers: key words, accepted answers, and what a recogniser hears."""
