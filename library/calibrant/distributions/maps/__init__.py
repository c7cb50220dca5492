"""Maps of predictive distributions."""
