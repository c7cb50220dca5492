"""Committed measurements: each writes the page in docs/ that shows its figures."""
