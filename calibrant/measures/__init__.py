"""Measures of calibration: one file a family, and the catalogue that names them all."""
