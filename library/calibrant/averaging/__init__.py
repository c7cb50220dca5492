"""The model average: piecewise linear curves weighed by their out-of-fold losses, and a Gaussian process."""
