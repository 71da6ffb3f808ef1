"""The check before a machine joins: versions, the token, addresses, cores of another worker."""

from __future__ import annotations

import os
import socket
import stat
import sys
from types import SimpleNamespace

import pytest

from whet.cli import main
from whet.compiler import settings
from whet.compiler.errors import ArgumentError, MeasureError
from whet.measure.cluster import check, join, listeners, token
from whet.measure.cluster.check import Versions, of_labels, own_versions, refuse_mismatch
from whet.measure.cluster.held import holding
from whet.measure.cluster.join import JoinOptions, Member

OWN = Versions("0.1.0", "aa", "3.11.7", "2.60.0")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home without a token."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.fixture
def port():
    """A port at which nobody listens, held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_labels_carry_the_versions():
    assert of_labels(OWN.labels()) == OWN == of_labels(OWN.labels() | {"other": "label"})
    from ray._private.label_utils import validate_node_label_syntax

    assert validate_node_label_syntax(own_versions().labels()) is None
    assert Versions("0.2.0+local", "", "", "").labels() == {"whet/version": "0.2.0_local"}


def test_equal_versions_and_a_head_that_says_nothing_are_let_in():
    for head in (OWN, Versions("", "", "", ""), Versions("", "", "3.11.7", "2.60.0")):
        refuse_mismatch("join", OWN, head)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (Versions("0.2.0", "bb", "3.11.7", "2.60.0"), "Whet 0.1.0 here, 0.2.0 on the head"),
        (Versions("0.1.0", "aa", "3.12.1", "2.60.0"), "Python 3.11.7 here, 3.12.1 on the head"),
        (Versions("0.1.0", "aa", "3.11.7", "2.59.0"), "Ray 2.60.0 here, 2.59.0 on the head"),
        (Versions("0.1.0", "bb", "3.11.7", "2.60.0"), "of other files: aa here, bb there"),
    ],
)
def test_other_versions_are_refused(head, why):
    with pytest.raises(MeasureError) as error:
        refuse_mismatch("whet worker --address h:1", OWN, head)
    assert str(error.value).startswith("whet worker --address h:1: ") and why in str(error.value)
    assert "install the head's versions" in str(error.value)


def test_the_digest_changes_with_a_file(tmp_path, monkeypatch):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(settings, "__file__", str(tmp_path / "room" / "settings.py"))
    before = check.code_digest.__wrapped__()
    (tmp_path / "room" / "note.txt").write_text("no code")
    assert check.code_digest.__wrapped__() == before
    (tmp_path / "room" / "a.py").write_text("x = 2\n")
    assert check.code_digest.__wrapped__() != before


def test_without_ray_the_error_says_how_to_install_it(monkeypatch, home):
    monkeypatch.setattr(check, "installed_versions", lambda names: {"python": "3.11.7"})
    with pytest.raises(MeasureError, match=r"(?s)Ray is not installed here.*pip install.*cluster"):
        Member(JoinOptions(), print)


def test_a_head_makes_a_token_for_this_user_alone(home):
    path = token.make()
    assert path == home / ".ray" / "auth_token"
    assert len(path.read_text()) == 64 and stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert token.make() == token.find("h:1") == path and path.read_text() == text
    assert token.environment()["RAY_AUTH_MODE"] == "token"
    assert not token.is_open_to_others(path)
    path.chmod(0o644)
    assert token.is_open_to_others(path)


def test_who_joins_without_a_token_is_told_where_to_copy_it_from(home):
    with pytest.raises(MeasureError) as error:
        token.find("10.0.0.1:6379")
    assert f"scp 10.0.0.1:.ray/auth_token {home / '.ray' / 'auth_token'}" in str(error.value)
    assert not (home / ".ray").exists()


def test_a_token_in_the_environment_and_none_at_all(home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert token.make() is None is token.find("h:1")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert token.make() is None is token.find("h:1")
    assert token.environment()["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.setenv("RAY_AUTH_MODE", "password")
    with pytest.raises(ArgumentError, match="RAY_AUTH_MODE=password"):
        token.make()


def test_a_driver_shows_the_token_that_is_there(home, monkeypatch):
    told = []
    core = SimpleNamespace(Config=SimpleNamespace(initialize=told.append))
    monkeypatch.setitem(sys.modules, "ray._raylet", core)
    token.authenticate()
    assert "RAY_AUTH_MODE" not in os.environ
    token.make()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    token.authenticate()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert not told
    token.authenticate()
    assert os.environ["RAY_AUTH_MODE"] == "token" and told == [""]


@pytest.mark.parametrize(
    ("options", "why", "way"),
    [
        ({"address": "nonsense"}, "no address", "10.0.0.1:6379"),
        ({"address": "host:99999"}, "no address", "10.0.0.1:6379"),
        ({"address": "ray://10.0.0.1:10001"}, "ray:// is for searches", "--address 10.0.0.1:6379"),
        ({"listen": "192.0.2.7"}, "whet worker --listen 192.0.2.7", "ip -brief address"),
        ({"listen": "0.0.0.0"}, "stands for every address", "ip -brief address"),
        ({"cores": "9999"}, "may not use cores 9999", "it may use"),
    ],
)
def test_wrong_options_say_why_and_the_way_out(home, options, why, way):
    with pytest.raises(ArgumentError) as error:
        Member(JoinOptions(**options), print)
    assert why in str(error.value) and way in str(error.value).splitlines()[-1]


def test_nobody_at_the_heads_address_is_said_at_once(home, port):
    with pytest.raises(MeasureError, match=r"(?s)nobody answers there.*whet worker --listen"):
        Member(JoinOptions(address=f"127.0.0.1:{port}"), print)


def test_a_port_that_is_taken_names_the_cluster_that_may_be_there(home, port):
    with pytest.raises(ArgumentError, match=rf"--address 127.0.0.1:{port}"):
        Member(JoinOptions(port=port), print).run()


def test_a_core_is_given_by_one_worker_only(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with holding([0, 1]):
        with pytest.raises(MeasureError) as error, holding([1, 2]):
            pytest.fail("core 1 is held")
        assert f"process {os.getpid()}, gives it already" in str(error.value)
        with holding([2]):
            pass
    with holding([0, 1, 2]):
        pass


def test_listeners_of_a_process_are_found():
    with socket.socket() as one, socket.socket(socket.AF_INET6) as wide, socket.socket() as quiet:
        one.bind(("127.0.0.1", 0))
        one.listen()
        wide.bind(("::", 0))
        wide.listen()
        quiet.bind(("127.0.0.1", 0))
        found = listeners.listeners([os.getpid()])
        assert ("127.0.0.1", one.getsockname()[1]) in found
        assert ("::", wide.getsockname()[1]) in found
        assert quiet.getsockname()[1] not in {port for _, port in found}
    assert listeners.is_loopback("127.0.0.1") and not listeners.is_loopback("0.0.0.0")
    assert {os.getpid(), os.getppid()} <= listeners.tree(os.getppid())


def test_ports_of_a_range_are_each_used_once(home):
    member = Member(JoinOptions(ports=(20000, 20099)), print)
    words = dict(word.split("=") for word in member._ports())
    own = [int(words[f"--{option}-port"]) for option in join.OWN_PORTS]
    assert own == list(range(20000, 20006))
    assert (words["--min-worker-port"], words["--max-worker-port"]) == ("20006", "20099")


def test_what_a_machine_announces(monkeypatch, home):
    monkeypatch.setattr(join, "own_gpus", lambda: {"cuda-0123456789ab": 2})
    member = Member(JoinOptions(), print)
    devices = join.announced(member.division, member._gpus())
    assert [d.numa for d in devices][-1] is None and list(devices.values())[-1] == 2
    only_builds = Member(JoinOptions(build="all"), print)
    assert join.announced(only_builds.division, only_builds._gpus()) == {}
    without = Member(JoinOptions(gpus=False), print)
    assert all(d.cores for d in join.announced(without.division, without._gpus()))


def test_gpus_are_counted_by_their_kinds(monkeypatch):
    from whet.compiler.errors import TargetError
    from whet.measure.device import identity

    kinds = {"gpu0": "cuda-1", "gpu1": "cuda-2", "gpu2": "cuda-1"}
    monkeypatch.setattr(identity, "every_gpu", lambda: tuple(kinds))
    monkeypatch.setattr(identity, "describe", lambda gpu, target: {"fingerprint": kinds[gpu]})
    assert join.own_gpus() == {"cuda-1": 2, "cuda-2": 1}

    def none():
        raise TargetError("cuda", "no driver")

    monkeypatch.setattr(identity, "every_gpu", none)
    assert join.own_gpus() == {}


@pytest.mark.parametrize("option", ["--port", "--client-port", "--dashboard"])
@pytest.mark.parametrize("port", ["99999999", "-5", "0", "http"])
def test_what_is_no_port_is_refused_before_anything_is_made(home, option, port, capsys):
    assert main(["worker", f"{option}={port}"]) == 2
    said = capsys.readouterr().err
    assert f"'{option}'" in said or f"'{port}'" in said
    assert not (home / ".ray").exists()


def test_the_dashboard_is_the_heads_and_for_this_machine_alone(home, monkeypatch):
    monkeypatch.setattr(check, "DASHBOARD", ("json",))
    words = Member(JoinOptions(dashboard=8265), print)._command(home, {})
    assert "--include-dashboard=true" in words and "--dashboard-port=8265" in words
    assert "--dashboard-host=127.0.0.1" in words
    assert "--include-dashboard=false" in Member(JoinOptions(), print)._command(home, {})
    with pytest.raises(ArgumentError, match="the dashboard is the head's"):
        Member(JoinOptions(address="10.0.0.1:6379", dashboard=8265), print)


def test_a_dashboard_without_its_parts_says_how_to_install_them(home, monkeypatch):
    monkeypatch.setattr(check, "DASHBOARD", ("no_such_module",))
    with pytest.raises(MeasureError, match=r"(?s)no_such_module is not installed.*\[dashboard\]"):
        Member(JoinOptions(dashboard=8265), print)
