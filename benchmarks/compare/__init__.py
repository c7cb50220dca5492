"""Every calibrator beside the others: fitted to one half of real predictions, scored on the other."""
