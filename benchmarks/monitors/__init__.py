"""Measurements of monitors: false alarms and delays, accuracy, speed."""
