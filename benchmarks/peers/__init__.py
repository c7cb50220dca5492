"""Calibrant beside netcal, torchmetrics, uncertainty-calibration, relplot and scikit-learn: time, memory and numbers.

``make peers`` runs it in ``.venv-peers``, a virtual environment of its own, and writes docs/benchmarks/peers.md.
"""
