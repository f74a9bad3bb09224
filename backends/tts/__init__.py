"""Text-to-speech (TTS) engines."""
