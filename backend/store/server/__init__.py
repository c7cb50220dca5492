"""The server: how Redis is reached, and what it means when it is not."""
