"""How callers reach a server: Moshi's web socket, OpenAI's realtime protocol, and HTTP around them."""
