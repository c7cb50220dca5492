"""Diagrams as data: the numbers of a calibration diagram, for any plotting program."""
