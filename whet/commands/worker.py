"""`whet worker`: this machine as a member of a Ray cluster that builds and measures."""

from __future__ import annotations

import re

import click

from whet.commands.words import Seconds

_PORTS = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
PORT = click.IntRange(1, 65535)
FEWEST_PORTS = 20
"""Of a range: Ray's own six, the builders', the measurers' and some for those that end."""


class _Ports(click.ParamType):
    """A range of ports, ``20000-20999``."""

    name = "range"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        found = _PORTS.fullmatch(str(value).strip())
        first, last = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1024 <= first <= last - FEWEST_PORTS + 1 <= 65535:
            self.fail(f"{value!r} is no range of at least {FEWEST_PORTS} ports, 20000-20999", param)
        return first, last


@click.command("worker")
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="The head of a cluster to join; default: start a new one.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="This machine's address for the others. Default: 127.0.0.1 for a new cluster, else the "
    "one from which the head is reached.",
)
@click.option(
    "--port",
    type=PORT,
    default=6379,
    show_default=True,
    help="Of a new cluster's head.",
)
@click.option(
    "--client-port",
    type=PORT,
    default=10001,
    show_default=True,
    help="Of a new cluster, for ray://.",
)
@click.option(
    "--dashboard",
    metavar="[PORT]",
    type=PORT,
    is_flag=False,
    flag_value=8265,
    help="Of a new cluster: Ray's dashboard, for this machine's browsers. Port: 8265.",
)
@click.option("--ports", type=_Ports(), help="All other ports, e.g. 20000-20999. Default: any.")
@click.option("--cores", metavar="LIST", help="The cores to give, e.g. 0-15. Default: all.")
@click.option(
    "--measure",
    metavar="[LIST]",
    multiple=True,
    is_flag=False,
    flag_value="all",
    help="Measure on all cores that do not build, or on these. Each --measure LIST is a set of "
    "its own, which measures one candidate at a time; one that spans NUMA nodes is a set in each.",
)
@click.option(
    "--build",
    metavar="[LIST]",
    is_flag=False,
    flag_value="all",
    help="Build on all cores that do not measure, or on these.",
)
@click.option("--no-gpus", is_flag=True, help="Keep this machine's GPUs out.")
@click.option(
    "--drain",
    type=Seconds(),
    default="60s",
    show_default=True,
    help="How long the trials that run here may take when this machine leaves.",
)
def command(
    address: str | None,
    listen: str | None,
    port: int,
    client_port: int,
    dashboard: int | None,
    ports: tuple[int, int] | None,
    cores: str | None,
    measure: tuple[str, ...],
    build: str | None,
    no_gpus: bool,
    drain: float,
) -> None:
    """Let this machine build and measure for searches with workers="ray://...".

    With neither --measure nor --build, the last core of each NUMA node measures and the others
    build. A core that measures does nothing else, nor do its hyper-threads. GPUs are offered where
    the machine measures.

    Ctrl-C or SIGTERM: the trials that run here end, then this machine leaves. Again: at once.
    """
    from whet.measure.cluster.join import JoinOptions, Member

    options = JoinOptions(
        address=address,
        listen=listen,
        port=port,
        client_port=client_port,
        dashboard=dashboard,
        ports=ports,
        cores=cores,
        measure=measure,
        build=build,
        gpus=not no_gpus,
        drain=drain,
    )
    Member(options, lambda line: click.echo(f"whet: {line}", err=True)).run()
