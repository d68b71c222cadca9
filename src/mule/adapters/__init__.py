"""One adapter an API: what it sends, and what it makes of what comes. Loaded on first use."""
