"""Figures 11 to 18 of "Revisiting the Calibration of Modern Neural Networks", on scikit-learn's digits."""
