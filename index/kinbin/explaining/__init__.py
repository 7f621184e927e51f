"""Why an item scores what it scores: the terms of its score, what bands and links make of the pair."""
