"""The part of CRI that role `toolkit` speaks: messages generated from the .proto file beside this, and method names."""

from __future__ import annotations

from typing import Final

VERSION: Final = "/runtime.v1.RuntimeService/Version"
STATUS: Final = "/runtime.v1.RuntimeService/Status"
LIST_CONTAINERS: Final = "/runtime.v1.RuntimeService/ListContainers"
