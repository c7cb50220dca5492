"""The command ``calibrant``."""
