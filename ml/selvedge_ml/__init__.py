"""Models of sensors: what they learn from, their training, how good they are, and how an edge gets them."""
