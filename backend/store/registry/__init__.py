"""The registry: maps, their versions, aliases and lists."""
