"""What every package of the library uses: rows, cells, reductions, binning, options, errors and results."""
