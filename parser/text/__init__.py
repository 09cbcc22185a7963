"""Raw text: its sentences, tokens and words, and the tokenizers that find them."""
