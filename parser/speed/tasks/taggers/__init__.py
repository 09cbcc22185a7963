"""BiLSTM taggers, of words and of characters (Neubig et al. 2017)."""
