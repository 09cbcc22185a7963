"""Programs of neural modules on CLEVR's questions (Suarez & Zhu 2017; Johnson et al. 2017)."""
