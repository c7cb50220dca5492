"""How each family of measures stands in the catalogue: names, definitions, options."""
