"""What runs inside worker environments. These files import the standard library, `backends.workers.frames`, and what
their environment holds; nothing else of ours."""
