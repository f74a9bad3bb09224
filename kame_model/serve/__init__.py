"""The server: many callers at once on one device, each with its own session, any chat model behind it."""
