"""Whether a pod that is created gets cards, which, and the JSON patch for it. Pure: no clock, no API server."""
