"""What several processes must agree on: pure functions over the contract's records."""
