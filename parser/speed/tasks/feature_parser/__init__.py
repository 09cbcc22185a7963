"""The greedy parser over BiLSTM features (Kiperwasser & Goldberg 2016; Neubig et al. 2017)."""
