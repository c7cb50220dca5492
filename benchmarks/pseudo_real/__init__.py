"""Evaluators of calibration against a nearly known true map (Kangsepp, Valk & Kull 2022, appendix D.2)."""
