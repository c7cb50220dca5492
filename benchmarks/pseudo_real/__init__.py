"""Evaluators of calibration beside a nearly known truth (Kangsepp, Valk & Kull 2022, appendix D.2)."""
