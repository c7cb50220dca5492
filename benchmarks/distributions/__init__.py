"""Predictive distributions: recalibrated influenza forecasts, conformal coverage, and the variances of a network."""
