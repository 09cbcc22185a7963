"""A sparsely gated layer of experts (Suarez & Zhu 2017; Shazeer et al. 2017)."""
