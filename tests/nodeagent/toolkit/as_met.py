"""More files of containerd as distributions and administrators write them, for `configurations.CASES`."""

from __future__ import annotations

from typing import Final

V2: Final = 'plugins."io.containerd.grpc.v1.cri"'
V3: Final = "plugins.'io.containerd.cri.v1.runtime'"
SECRET: Final = "s3cret-of-the-registry"
RUNC: Final = f"""[{V2}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{V2}.containerd.runtimes.runc.options]
SystemdCgroup = true
"""
ONE: Final = {
    "hosts-folder": f'version = 2\nroot = "/var/lib/containerd"\n[{V2}.registry]\n'
    f'config_path = "/etc/containerd/certs.d"\n{RUNC}',
    "cni-folders": f'version = 2\n[{V2}.cni]\nbin_dir = "/opt/cni/bin"\nconf_dir = "/etc/cni/net.d"\n{RUNC}',
    "gvisor-beside": f'version = 2\n{RUNC}[{V2}.containerd.runtimes.runsc]\nruntime_type = "io.containerd.runsc.v1"\n',
    "kata-beside": f'version = 2\n{RUNC}[{V2}.containerd.runtimes.kata]\nruntime_type = "io.containerd.kata.v2"\n'
    "privileged_without_host_devices = true\n",
    "default-named": f'version = 2\n[{V2}.containerd]\ndefault_runtime_name = "runc"\nsnapshotter = "native"\n{RUNC}',
    "mirror-with-a-token": f'version = 2\n{RUNC}[{V2}.registry.mirrors."docker.io"]\nendpoint = ["https://m.example.com"]\n'
    f'[{V2}.registry.configs."m.example.com".auth]\nidentitytoken = "{SECRET}"\n'
    f'[{V2}.registry.configs."m.example.com".tls]\ninsecure_skip_verify = true\n',
    "other-plugins-last": f'version = 2\n{RUNC}[plugins."io.containerd.gc.v1.scheduler"]\npause_threshold = 0.02\n'
    '[metrics]\naddress = "127.0.0.1:1338"\n',
    "a-list-over-lines": f'version = 2\nrequired_plugins = [\n  "io.containerd.grpc.v1.cri", # CRI\n]\n{RUNC}',
    "comments-alone": "# nothing is set here yet\n\n# ask the platform team\n",
    "in-cyrillic": f"version = 2\n# не трогать: Ольга, 2024\n{RUNC}# конец\n",
    "tabs-and-spaces-at-ends": f"version = 2  \t\n\n\t{RUNC}\t\n   \n",
    "cdi-is-on": f'version = 2\n[{V2}]\nenable_cdi = true\ncdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]\n{RUNC}',
    "a-text-that-looks-like-a-table": f"version = 2\n[{V2}]\nstats_collect_period = 10\n"
    f"sandbox_image = '''[{V2}]'''\n{RUNC}",
}
"""For containerd 1.7, in the main file."""
TWO: Final = {
    "2-hosts-folder": "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\n"
    f"config_path = '/etc/containerd/certs.d'\n[{V3}.containerd.runtimes.runc]\n"
    "runtime_type = 'io.containerd.runc.v2'\n",
    "2-headers-with-a-token": "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry.headers]\n"
    f"X-Token = ['{SECRET}']\n",
    "2-gvisor-beside": f"version = 3\n[{V3}.containerd.runtimes.runsc]\nruntime_type = 'io.containerd.runsc.v1'\n"
    f"[{V3}.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n",
}
"""For containerd 2, in the main file."""
