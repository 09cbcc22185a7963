"""Gated graph networks on bAbI's deductions and on molecules (Gaunt et al. 2017; Li et al. 2016)."""
