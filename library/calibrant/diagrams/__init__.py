"""Diagrams as data: what a picture of calibration shows, as plain numbers that any program can draw."""
