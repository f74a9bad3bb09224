"""The alignment stage: word timings of clean speech."""
