"""Sessions with a front-end over the web."""
