"""The kinds of predictions in files; ``read_table`` of each chooses the columns of an open table and reads them."""
