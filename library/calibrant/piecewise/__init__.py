"""Fits of PL and PL3: batched Levenberg-Marquardt fits of piecewise linear maps, chosen by cross-validation."""
