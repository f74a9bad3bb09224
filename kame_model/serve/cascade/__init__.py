"""The server's mode without a front-end: recogniser, chat model and text-to-speech in sequence."""
