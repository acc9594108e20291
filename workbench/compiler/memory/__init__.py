"""Memory of values: liveness and colouring."""
