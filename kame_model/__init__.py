"""The four-stream front-end on stock moshi: token rows, training, checkpoint, server."""
