"""The readers of bodies: bytes in, arrays and options out. One module a format."""
