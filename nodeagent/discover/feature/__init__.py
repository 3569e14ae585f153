"""The node's NodeFeature: made of several scans, confirmed, and compared with what the cluster has. Pure."""
