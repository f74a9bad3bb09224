"""Question sets, one short file each, and anybody's own questions by a column map."""
