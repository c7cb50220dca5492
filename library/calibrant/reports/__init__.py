"""Reports: an evaluation as one HTML file, verdict first. No network, no store."""
