"""Tasks of a newcomer: each a few lines as a person would type them, with the outcome that the person expects."""
