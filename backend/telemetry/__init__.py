"""What is told of running work: log lines and traces. Ids, counts and seconds; never a value of a batch."""
