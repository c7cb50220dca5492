"""Backups: all that the store keeps as one file, portable between versions of the service and of its store."""
