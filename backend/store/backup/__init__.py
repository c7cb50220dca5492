"""Backups: the contents of the store as one file, portable between versions of the service and of Redis."""
