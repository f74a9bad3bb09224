"""Normalisation of written text before it is read: characters, markup, LaTeX, layout."""
