"""The entries of the catalogue of calibrators, one file a kind."""
