"""Online recalibration of real and simulated streams, compared with a static map and refits of a sliding window."""
