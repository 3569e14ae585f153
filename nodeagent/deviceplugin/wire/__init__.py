"""Kubelet's two protocols: messages generated from the .proto files beside this, and the services' names.

Only the messages are generated. The services are few, and grpcio's generic handlers need no more than
a method's name and its two messages.
"""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "v1beta1"
REGISTER: Final = "/v1beta1.Registration/Register"
PLUGIN_SERVICE: Final = "v1beta1.DevicePlugin"
LIST: Final = "/v1.PodResourcesLister/List"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
