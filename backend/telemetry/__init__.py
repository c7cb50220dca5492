"""Log lines and traces of running work. Ids, counts and seconds; never a value of a batch."""
