"""What NVIDIA's GPU Operator was asked for, as objects of this module. Pure.

It reads objects of GPU Operator 26.7 (nvidia.com/v1 ClusterPolicy, nvidia.com/v1alpha1 NVIDIADriver), or its chart's
values, with the ConfigMaps that they name. What has no counterpart becomes a remark with its reason.
"""
