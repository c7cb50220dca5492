"""Estimates without labels, label shift and prediction drift."""
