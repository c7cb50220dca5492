"""Thresholds and costs of decisions."""
