"""What all sessions share: the engine in its thread, the clock that steps it, and admission by measured load."""
