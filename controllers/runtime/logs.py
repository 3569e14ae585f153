"""Logs: one JSON object a line on standard output, with what is being reconciled bound to it.

Libraries log through the standard library; their warnings, and asyncio's about exceptions
that nobody took, become the same kind of line.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import orjson
import structlog

LEVELS = {"Debug": logging.DEBUG, "Info": logging.INFO, "Warn": logging.WARNING, "Error": logging.ERROR}


def configure(process: str, level: str = "Info") -> None:
    """Set logging up for a process; may be called again to change the level."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            lambda _, __, event: {"process": process, **event},
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        # Not cached: a changed level reaches loggers that modules made at import.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=max(LEVELS[level], logging.WARNING), handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    """A record of the standard library, rendered as ours are."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        event = {"logger": record.name, "event": record.getMessage(), "exc_info": record.exc_info or None}
        processors = structlog.get_config()["processors"]
        for processor in processors:
            event = processor(None, record.levelname.lower(), event)
        return str(event)


def _line(event: dict[str, Any], **_: Any) -> str:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # text that is not UTF-8, whole numbers above 64 bits
        return json.dumps(event, default=str, skipkeys=True, ensure_ascii=False).encode(errors="replace").decode()
