"""Figures 11 and 13 to 18 of "Revisiting the Calibration of Modern Neural Networks", on scikit-learn's digits."""
