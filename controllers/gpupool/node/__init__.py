"""What is planned for one Node: pool labels, taints, and the cards that await a decision. Pure."""
