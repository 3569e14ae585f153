"""The components: the DaemonSets that prepare a GPU node, in the order in which they start there. Pure.

A row here and a module of the same name in `controllers.components.pods` are a component. Its settings, image, gate,
reasons and the tables of the docs are made from the row.
"""

from __future__ import annotations

from typing import Final

from controllers.api import conditions
from controllers.api.component import Component
from controllers.api.minimum_version import MinimumVersion

DRIVER_VALIDATOR: Final = "driver-validator"
TOOLKIT: Final = "toolkit"
GFD: Final = "gfd"
DCGM: Final = "dcgm"
EXPORTER: Final = "dcgm-exporter"
VALIDATOR: Final = "validator"

# The versions of images are those that NVIDIA's GPU operator v26.7.0 ships together.
COMPONENTS: Final = (
    Component(
        DRIVER_VALIDATOR,
        conditions.DRIVER_MISSING,
        description="Checks the driver that the administrator installed.",
        description_ru="Проверка драйвера, который установил администратор.",
        subject="the driver's validator",
        own_env=("NODE_NAME", "HOST_SYS", "HOST_ROOT", "HOST_DRIVER_ROOT"),
        look_at="its image, the node's resources and its log",
    ),
    Component(
        TOOLKIT,
        conditions.TOOLKIT_MISSING,
        description="Container toolkit, 1.19 or newer.",
        description_ru="Компонент NVIDIA container toolkit версии 1.19 или новее:"
        " открывает контейнерам доступ к картам.",
        subject="the toolkit's pod",
        image="nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
        # Before 1.18 the installer does not know RUNTIME_DROP_IN_CONFIG either (NVIDIA/nvidia-container-toolkit).
        minimum=MinimumVersion(
            "container-toolkit",
            "1.19",
            "cannot name the cards for containers (nvidia-ctk cdi generate --no-all-device),"
            " so its pod never becomes ready",
        ),
        own_env=(
            *("ROOT", "DRIVER_ROOT_CTR_PATH", "TOOLKIT_PID_FILE", "NO_RUNTIME_CONFIG", "NVIDIA_DRIVER_ROOT"),
            *("NVIDIA_DEV_ROOT", "DEV_ROOT_CTR_PATH", "HOST", "RUN", "DRIVER", "CDI_OUTPUT_DIR"),
        ),
        hint="where container `runtime` is not ready, its log says what the container runtime lacks"
        " ([bootstrap.md](bootstrap.md#what-changes-on-the-node)); `Refused` and `Reverted` in that log want a person",
    ),
    # It asks NVML again and again, each time with every card open.
    Component(
        GFD,
        conditions.INFRA_DEGRADED,
        description="GPU feature discovery.",
        description_ru="Компонент GPU feature discovery: определяет свойства карт и ставит лейблы на узел.",
        subject="GPU feature discovery",
        image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        essential=False,
        holds_gpu_open=True,
        own_env=("NODE_NAME", "GFD_OUTPUT_FILE", "GFD_SLEEP_INTERVAL"),
        consequence="it only writes labels, so cards stay in pools",
    ),
    # The host engine watches fields of every card, and keeps all of them open for it.
    Component(
        DCGM,
        conditions.MONITORING_MISSING,
        description="Data Center GPU Manager.",
        description_ru="Компонент DCGM (Data Center GPU Manager).",
        subject="DCGM's pod",
        image="nvcr.io/nvidia/cloud-native/dcgm:4.6.0-1-ubuntu24.04",
        holds_gpu_open=True,
        look_at="its image, the port in use and the driver",
    ),
    # It asks NVML about the cards itself, and without an engine it holds them in its own.
    Component(
        EXPORTER,
        conditions.MONITORING_MISSING,
        description="Telemetry of the cards: DCGM exporter, 4.0.0 or newer.",
        description_ru="Экспортёр DCGM версии 4.0.0 или новее: телеметрия карт.",
        subject="the exporter's pod",
        image="nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless",
        # The first of two versions in its tags is that of the DCGM that it is built with.
        minimum=MinimumVersion(
            "dcgm-exporter",
            "4.0.0",
            "does not know DCGM_FI_DEV_CLOCKS_EVENT_REASONS, which the module asks for, and does not start",
        ),
        holds_gpu_open=True,
        own_env=("NODE_NAME", "DCGM_EXPORTER_LISTEN"),
        look_at="its image, the port in use and the driver",
    ),
    # Its container has every card, and asks NVML of each in turn.
    Component(
        VALIDATOR,
        conditions.INFRA_DEGRADED,
        description="A container that must see the cards.",
        description_ru="Проверочный контейнер, который должен увидеть карты.",
        subject="the validator's container",
        holds_gpu_open=True,
        own_env=("NODE_NAME", "HOST_SYS", "HOST_ROOT"),
        consequence="cards have not been seen from within one",
        hint="`ContainerCreating` means that the runtime lacks the handler",
    ),
)
HOLDING_GPU_OPEN: Final = frozenset(each.name for each in COMPONENTS if each.holds_gpu_open)
"""Components that stop before a GPU is reset. The driver's validator has no device nodes and reads the host's files.
The toolkit stays, since pods need their runtime: it opens the cards for a moment when it makes their specification anew
(ADR 0019), and a reset that finds one in use is tried again."""
OWN_ENV: Final = frozenset(name for each in COMPONENTS for name in each.own_env)
"""Environment that no component's settings change."""
