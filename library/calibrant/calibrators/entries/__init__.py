"""Entries of the catalogue of calibrators, one file per kind."""
