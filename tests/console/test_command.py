"""`kubectl gpu console` as a program: it says where it serves, serves there, and ends when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from kubectl_gpu.parser import build
from reliability.kit.apiserver import Server
from tests.kit.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def started(*arguments: str, browser: str = "true") -> subprocess.Popen[str]:
    # Who runs in the background of a shell is interrupted by nobody, and would hand that on.
    command = ["/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "kubectl_gpu", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "BROWSER": browser}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
async def test_it_serves_until_it_is_interrupted(server: Server, tmp_path: Path, address: str) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{opened}\n')
    browser.chmod(0o755)
    config = server.kubeconfig(tmp_path / "it.kubeconfig")
    process = started("console", f"--kubeconfig={config}", f"--address={address}", browser=str(browser))
    try:
        assert process.stdout is not None
        url, _, secret = process.stdout.readline().strip().partition("#token=")
        assert url.startswith(f"http://{address}:")
        headers = {"Authorization": f"Bearer {secret}"}
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}api/rows/fleet", headers=headers) as answer:
                assert answer.status == 200
            async with session.get(url) as answer:
                assert "text/html" in answer.headers["Content-Type"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert out == ""
        assert err.splitlines() == ["Serving until interrupted (Ctrl-C). Whoever has this address sees what you see."]
        # Others may read a browser's command line: what it was given is not the secret.
        assert opened.read_text().startswith(f"{url}#token=")
        assert secret not in opened.read_text()
    finally:
        process.kill()
        process.communicate()


def test_what_cannot_be_served_is_a_sentence(server: Server, tmp_path: Path) -> None:
    config = server.kubeconfig(tmp_path / "nobody.kubeconfig", token="wrong")
    _, err = (process := started("console", f"--kubeconfig={config}", "--no-browser")).communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "does not accept your credentials" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "localhost", "example.com"])  # noqa: S104
def test_no_other_machine_is_served(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build().parse_args(["console", "--address", address])
    assert "an address of this machine alone" in capsys.readouterr().err
    assert build().parse_args(["console", "--address", "::1", "--port", "8080"]).port == 8080
