"""What all sessions share: the engine in its thread, the clock that steps it, and how many callers it bears."""
