"""`python as_in_pod.py FOLDER -m MODULE ARGS…`: starts a module as its container would, with FOLDER's token and ca.crt.

The credentials of a pod are at a fixed path of its own file system; nothing else is different here.
"""

from __future__ import annotations

import runpy
import sys

from kubernetes_asyncio.config import incluster_config


def main() -> None:
    """Become that program."""
    folder, flag, module, *args = sys.argv[1:]
    assert flag == "-m", "a container of this chart starts a module"
    incluster_config.SERVICE_TOKEN_FILENAME = f"{folder}/token"
    incluster_config.SERVICE_CERT_FILENAME = f"{folder}/ca.crt"
    sys.argv = [module, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
