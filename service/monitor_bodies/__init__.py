"""Bodies with rows for a monitor: each format is converted to the same arrays. Only the routes use HTTP."""
