"""The shell of health: DCGM exporters are scraped, their samples kept in memory and shown as metrics."""
