"""Request bodies and responses: one module per format, from bytes to arrays and options and back."""
