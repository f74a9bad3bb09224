"""A caller that is a program: a sound file or this machine's microphone talks with a server."""
