"""Sources of questions: one short file for each question set, and a column map for other files."""
