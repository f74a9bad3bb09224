"""`kame evaluate questions`: spoken questions."""
