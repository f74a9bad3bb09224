"""The client: a program that calls a server with a sound file or with this machine's microphone."""
