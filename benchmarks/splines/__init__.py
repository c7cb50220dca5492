"""Spline calibration as its paper runs it: fitted to one event, on the networks of CIFAR-10 and CIFAR-100."""
