"""Calibrators: what each is, and how a map is fitted by it."""

from calibrant.methods.catalogue import METHODS, read_method
from calibrant.methods.fitting import Fitting, fit
from calibrant.methods.method import FitContext, Method, fit_curve

__all__ = ["METHODS", "FitContext", "Fitting", "Method", "fit", "fit_curve", "read_method"]
