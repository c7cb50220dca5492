"""Pictures: what ``calibrant.diagrams`` tells as data, drawn as SVG and PNG. The one room that loads matplotlib."""
