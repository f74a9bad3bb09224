"""The dashboard: web pages that show datasets, runs, training and checkpoints."""
