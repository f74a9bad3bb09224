"""How good a front-end is."""
