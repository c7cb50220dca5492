"""Measures of calibration: one file of formulas a family, its entries, and the catalogue that names them all."""
