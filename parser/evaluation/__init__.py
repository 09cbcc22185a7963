"""How good trees are."""
