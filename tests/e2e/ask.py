"""Asks kubelet itself, over its own socket, which devices it may hand out: what the API server hears later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from nodeagent.deviceplugin.wire import podresources_pb2

METHOD = "/v1.PodResourcesLister/GetAllocatableResources"
SECONDS = 5.0


def _response() -> Any:
    """The answer's message: of its fields only the devices, number 1 (k8s.io/kubelet, pkg/apis/podresources/v1)."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/e2e/allocatable.proto",
        package="v1",
        syntax="proto3",
        dependency=[podresources_pb2.DESCRIPTOR.name],
    )
    message = file.message_type.add(name="AllocatableResourcesResponse")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(
        name="devices",
        number=1,
        label=kinds.LABEL_REPEATED,
        type=kinds.TYPE_MESSAGE,
        type_name=".v1.ContainerDevices",
    )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("v1.AllocatableResourcesResponse"))


RESPONSE = _response()


class Kubelet:
    """One connection to kubelet."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}")
        self._ask = self._channel.unary_unary(
            METHOD, request_serializer=lambda _: b"", response_deserializer=RESPONSE.FromString
        )

    async def devices(self, resource: str) -> set[str]:
        """The healthy devices of a resource that kubelet knows now."""
        answer = await self._ask(None, timeout=SECONDS, wait_for_ready=True)
        return {id_ for entry in answer.devices if entry.resource_name == resource for id_ in entry.device_ids}

    async def close(self) -> None:
        await self._channel.close()
