"""Taking in: from the arrays of a request to what is counted, exactly once, by many processes at a time."""
