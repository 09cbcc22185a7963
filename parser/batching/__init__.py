"""How computation is grouped. Knows no sentence and no parser."""
