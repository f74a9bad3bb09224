"""One caller's conversation: what is heard, said, told to the transport, and kept if the caller agrees."""
