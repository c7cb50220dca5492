"""The model average: curves weighted by their out-of-fold losses, and a Gaussian process."""
