"""Comparison with netcal, torchmetrics, uncertainty-calibration, relplot and scikit-learn: time, memory, results.

``make peers`` runs it in ``.venv-peers``, a virtual environment of its own, and writes docs/benchmarks/peers.md.
"""
