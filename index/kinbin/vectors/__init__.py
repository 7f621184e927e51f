"""From user input to canonical rows: the only place where input is validated."""
