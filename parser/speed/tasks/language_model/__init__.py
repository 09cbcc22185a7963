"""Models of running text whose networks are graphs of layers (Hwang & Sung 2015)."""
