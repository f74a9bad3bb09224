"""Text-to-speech as a session's voice: for mode cascade, and for a front-end with voice `synthesised`."""
