"""What a report shows of each kind of predictions; ``shown`` of each returns the values of the templates."""
