"""Predictive distributions of a real number: their input, and their recalibration."""
