"""Methods of the clients with a body or a stream, written as steps, with their docstrings; one module per resource."""
