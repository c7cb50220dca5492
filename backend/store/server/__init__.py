"""The Redis server: its URL, connections to it, and an embedded one."""
