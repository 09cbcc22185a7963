"""Binary Tree-LSTMs over trees with labels: batched on the fly, by level, and by messages."""
