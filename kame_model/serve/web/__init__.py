"""The server's network interfaces: Moshi's web socket, OpenAI's realtime protocol, and HTTP beside them."""
