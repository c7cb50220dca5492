"""Calibration maps: one file a family of curves, and the map that wraps any of them."""
