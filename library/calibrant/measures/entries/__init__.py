"""Entries of the catalogue of measures, one file per family."""
