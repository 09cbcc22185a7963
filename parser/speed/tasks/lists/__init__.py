"""A recurrent network that reduces lists to digits (Gaunt et al. 2017)."""
