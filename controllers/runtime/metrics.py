"""Metrics of the runtime itself; a process registers its own beside them."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, with the time of its creation

REQUESTS = Counter("gpu_client_requests_total", "Requests to the API server.", ["method", "code"])
RECONCILES = Counter("gpu_reconciles_total", "Reconciliations by their end.", ["controller", "result"])
RECONCILE_SECONDS = Histogram(
    "gpu_reconcile_seconds",
    "Duration of a reconciliation in seconds.",
    ["controller"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
)
QUEUE_DEPTH = Gauge("gpu_queue_depth", "Keys that wait for a worker.", ["controller"])
WRITES = Counter("gpu_writes_total", "Writes to the API server, by kind and verb.", ["kind", "verb"])
WATCH_ENDS = Counter("gpu_watch_ends_total", "Watches that ended, by reason.", ["kind", "reason"])
LISTS = Counter("gpu_lists_total", "Full lists, by kind.", ["kind"])
LIST_PAGES = Counter("gpu_list_pages_total", "Pages of full lists, by kind: requests that were answered.", ["kind"])
OBJECTS = Gauge("gpu_cached_objects", "Objects in the cache, by kind.", ["kind"])
UNREADABLE = Gauge("gpu_unreadable_objects", "Objects that could not be decoded, by kind.", ["kind"])
LEADER = Gauge("gpu_leader", "1 while this process leads.", ["lease"])
LOOP_STALL = Gauge("gpu_event_loop_stall_seconds", "Longest stall of the event loop since the last scrape.")
TASKS = Gauge("gpu_event_loop_tasks", "Tasks of the event loop, the one that answers the scrape included.")
READS = Counter("gpu_metrics_reads_total", "Requests for metrics over TLS, by the status of the answer.", ["code"])
READS_ENDED = Counter(
    "gpu_metrics_connections_ended_total",
    "Connections of the metrics' port ended by us, by why: handshake, silent, crowded or often.",
    ["why"],
)
EVENTS_DROPPED = Counter("gpu_events_dropped_total", "Kubernetes Events not sent, by reason.", ["reason"])
SETTINGS_INVALID = Gauge("gpu_settings_invalid", "1 while the ModuleConfig is invalid and older settings are used.")
