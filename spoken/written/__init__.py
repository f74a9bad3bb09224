"""Written text brought to one form before it is read: characters, markup, LaTeX, layout."""
