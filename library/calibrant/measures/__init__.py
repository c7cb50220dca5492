"""Measures of calibration: formulas by family, entries, and the catalogue."""
