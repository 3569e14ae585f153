"""AdmissionReviews as the API server sends them for the pods of a ReplicaSet that ask for one card. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from controllers.api.names import resource_name

_OWNED = {
    "f:metadata": {
        "f:generateName": {},
        "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"5b7b0c1e-6a44-4a3c-9a6e-0f6a2c1d7e55"}': {}},
    },
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {
                ".": {},
                "f:args": {},
                "f:command": {},
                "f:env": {".": {}, 'k:{"name":"NCCL_DEBUG"}': {".": {}, "f:name": {}, "f:value": {}}},
                "f:image": {},
                "f:imagePullPolicy": {},
                "f:name": {},
                "f:resources": {".": {}, "f:limits": {}, "f:requests": {}},
                "f:terminationMessagePath": {},
                "f:terminationMessagePolicy": {},
                "f:volumeMounts": {},
            }
        },
        "f:dnsPolicy": {},
        "f:enableServiceLinks": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
        "f:volumes": {},
    },
}


def review(number: int, namespace: str, pool: str, *, dry_run: bool) -> bytes:
    """One review, with a uid of its own for each number."""
    request = {
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "f4a1d1f5-3c2b-4f53-8a0c-2f6a1f4f0c11",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": _pod(namespace, pool),
        "oldObject": None,
        "dryRun": dry_run,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def _pod(namespace: str, pool: str) -> dict[str, Any]:
    """A pod as it is when admission sees it, with what the API server has filled in."""
    amounts = {"cpu": "8", "memory": "64Gi", resource_name(pool): "1"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "train-6d5f4c8b7d",
        "uid": "5b7b0c1e-6a44-4a3c-9a6e-0f6a2c1d7e55",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "generateName": "train-6d5f4c8b7d-",
        "namespace": namespace,
        "labels": {"app": "train", "pod-template-hash": "6d5f4c8b7d"},
        "ownerReferences": [owner],
        "managedFields": [
            {
                "manager": "kube-controller-manager",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": _OWNED,
            }
        ],
    }
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:1.4.2",
        "command": ["python", "-m", "train"],
        "args": ["--config=/etc/train/config.yaml", "--epochs=10", "--checkpoint-every=500"],
        "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [
            {
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for word in ("not-ready", "unreachable")
    ]
    spec = {
        "volumes": [
            {"name": "kube-api-access-x7k2p", "projected": {"sources": [token, authority], "defaultMode": 420}}
        ],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {}}
