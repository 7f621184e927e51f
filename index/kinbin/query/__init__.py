"""One query: options, route, search, answer."""
