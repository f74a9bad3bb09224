"""Training of a front-end: the loop, and checkpoints from which an interrupted run resumes with the same result."""
