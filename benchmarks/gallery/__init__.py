"""The gallery: the pictures of the papers drawn again from their definitions, and the service's own."""
