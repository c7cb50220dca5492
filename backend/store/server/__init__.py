"""The Redis server: its URL, connections, and an embedded server."""
