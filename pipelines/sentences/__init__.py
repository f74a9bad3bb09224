"""Single sentences for the assistant's voice: what is said, and the clean speech of it with word times."""
