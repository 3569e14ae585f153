"""A Docker daemon of our own starts where none answers, and leaves nothing but its folder."""

import io
import tarfile
from pathlib import Path

import pytest
from docker.errors import APIError

from tools.errors import UserError
from tools.images import daemon


def test_where_there_is_none_and_no_rights_a_person_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UserError, match="images-tools"), daemon.connected(tmp_path):
        pass


@pytest.mark.more("starts Docker")
@pytest.mark.skipif(
    bool(daemon.lacking()), reason=f"no daemon can be started: {daemon.lacking()}; as root: {daemon.INSTALL}"
)
def test_our_own_ends_with_its_context_and_leaves_nothing_mounted(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with daemon.connected(tmp_path / "docker") as client:
        assert client.info()["Driver"]
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        client.api.import_image_from_data(empty.getvalue(), repository="empty", tag="1")
        # It fails to start, having no program, and dockerd mounts the network's file nonetheless.
        with pytest.raises(APIError):
            client.containers.run("empty:1", ["/nothing"], network_mode="host")
        place = (tmp_path / "docker" / "docker.sock").resolve().parent
        assert mounted(place)
    assert not mounted(place)
    assert not mounted(tmp_path)
    assert not place.exists()


def mounted(folder):
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {folder}/" in line]
