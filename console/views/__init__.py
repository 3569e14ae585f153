"""What each page shows, as rows of JSON, computed from what a viewer may read. Pure."""
