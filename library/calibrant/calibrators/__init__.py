"""Calibrators: the catalogue of methods, and their fits."""

from calibrant.calibrators.fitting import METHODS, Fitting, fit, read_method, update
from calibrant.calibrators.method import FitContext, Method, fit_curve

__all__ = ["METHODS", "FitContext", "Fitting", "Method", "fit", "fit_curve", "read_method", "update"]
