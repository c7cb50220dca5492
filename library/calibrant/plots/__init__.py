"""Pictures: the data of ``calibrant.diagrams`` drawn as SVG and PNG. The only package that loads matplotlib."""
