"""What people have: CSV, NPZ, Parquet and Arrow files, read into arrays; what is guessed of their columns is said."""
