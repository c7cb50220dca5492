"""Prediction sets: conformal classification, and risk control for a monotone loss."""
