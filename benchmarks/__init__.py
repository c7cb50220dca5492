"""Committed measurements; each writes a page of docs/benchmarks."""
