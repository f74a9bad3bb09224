"""Training a front-end: its steps, and checkpoints from which a run goes on as if it had never been stopped."""
