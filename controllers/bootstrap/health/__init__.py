"""Health of cards: DCGM exporter's text is scraped, judged card by card, and told when something changes."""
