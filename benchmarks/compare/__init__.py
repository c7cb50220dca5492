"""Comparison of calibrators: fitted to one half of real predictions, scored on the other."""
