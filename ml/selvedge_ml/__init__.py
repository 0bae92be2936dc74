"""What models of sensors learn from: readings as published, and faults put into them."""
