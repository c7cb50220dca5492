"""Draw the data of ``calibrant.diagrams`` as SVG and PNG; the only package that imports matplotlib."""
