"""Text-to-speech as a session's voice: of mode cascade, and of a front-end whose own sound is not wanted."""
