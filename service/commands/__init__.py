"""The commands that the server adds to ``calibrant``."""
