"""Prometheus for tests of alerts and dashboards, and what the dashboards are generated from."""
