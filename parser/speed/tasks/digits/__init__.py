"""Linear layers on images of digits (Gaunt et al. 2017)."""
