"""Files <-> sentences <-> integer tensors."""
