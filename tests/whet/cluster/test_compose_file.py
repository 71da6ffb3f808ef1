"""The compose file of a cluster: its commands parse, and what they need is there."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml

from whet.cli import cli
from whet.commands.words import Seconds

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs" / "cluster" / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES = COMPOSE["services"]
WORKERS = [name for name, service in SERVICES.items() if "whet" in service.get("command", ())]


@pytest.fixture(params=WORKERS)
def worker(request):
    """A service, and the parameters that its command line gives."""
    service = SERVICES[request.param]
    program, name, *words = service["command"]
    assert program == "whet"
    context = click.Context(cli, info_name="whet")
    command = cli.get_command(context, name)
    return service, command.make_context(name, words, parent=context).params


def test_there_are_a_head_and_others():
    assert len(WORKERS) > 2


def test_a_service_ends_by_draining(worker):
    service, given = worker
    assert service["stop_signal"] == "SIGTERM"
    assert Seconds().convert(service["stop_grace_period"], None, None) > given["drain"]


def test_a_worker_joins_the_head_or_listens(worker):
    service, given = worker
    if given["address"] is None:
        assert given["listen"] == service["hostname"] in SERVICES
        assert given["client_port"] == 10001 and service["ports"] == ["127.0.0.1:10001:10001"]
    else:
        host, _, port = given["address"].partition(":")
        assert host in service["depends_on"] and port == "6379"


def test_a_container_may_use_the_cores_that_it_gives(worker):
    service, given = worker
    assert service["cpuset"] == given["cores"]
    assert given["measure"] or given["build"]


def test_no_two_services_give_the_same_cores():
    sets = [SERVICES[name]["cpuset"] for name in WORKERS]
    assert len(set(sets)) == len(sets)


def test_secrets_are_files_that_the_first_lines_make(worker):
    service, _ = worker
    path = Path(service["environment"]["RAY_AUTH_TOKEN_PATH"])
    assert path.parent == Path("/run/secrets") and path.name in service["secrets"]
    for name, secret in COMPOSE["secrets"].items():
        assert secret["file"] == f"./{name}" and f"> {name}" in FILE.read_text()


def test_volumes_and_the_context_are_there(worker):
    service, _ = worker
    assert (FILE.parent / service["build"]["context"] / "pyproject.toml").is_file()
    used = {v.split(":")[0] for s in SERVICES.values() for v in s.get("volumes", ())}
    assert used == set(COMPOSE["volumes"])


def test_nothing_is_open_to_other_hosts():
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_secrets_reach_neither_the_repository_nor_an_image():
    folder = FILE.parent.relative_to(ROOT)
    for file in (".gitignore", ".dockerignore"):
        lines = (ROOT / file).read_text().splitlines()
        assert {f"{folder}/{name}" for name in COMPOSE["secrets"]} <= set(lines)
    assert ".git" in (ROOT / ".dockerignore").read_text().splitlines()
