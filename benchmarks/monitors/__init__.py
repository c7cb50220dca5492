"""Benchmarks of monitors."""
