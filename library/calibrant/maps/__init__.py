"""Calibration maps: families of curves and transforms, and the map that wraps them."""
