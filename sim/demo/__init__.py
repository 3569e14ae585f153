"""`make demo`: the story of one card, played on a real control plane and told as it happens."""
