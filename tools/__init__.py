"""Build tools of the repository: programs, container images, generated docs and dashboards. Nothing here is shipped."""
