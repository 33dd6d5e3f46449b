"""hsconsole status."""

from __future__ import annotations

import click

from console.cli import output
from console.cli.session import session
from console.cli.shm import print_shm
from console.config.profile import Profile
from console.operations import gpuholders, overview
from console.operations.counts import told
from console.operations.overview import Overview
from console.operations.verdicts import last_told
from console.text import size, span
from remote.wire.codec import encode
from remote.wire.telemetry import Gpu, MigDevice


@click.command("status")
@output.json_option
@click.pass_obj
def command(profile: str | None, as_json: bool) -> None:
    """Show everything the main screen shows, once."""
    with session(profile) as (agent, used):
        found = overview.take(agent, used)
    if as_json:
        output.print_json({"profile": used.name, **encode(found)})
    else:
        _print(used, found)


def _print(profile: Profile, found: Overview) -> None:
    server, shm, dumps = found.server, found.shm, found.dumps
    age = f" for {span(server.age)}" if server.age is not None else ""
    output.say(f"profile  {profile.name}", bold=True)
    output.say(f"server   {server.phase.value}{age}, port {server.port}: {server.detail}")
    if last_told(server):
        output.say(f"canary   {last_told(server)}")
    output.say(f"patch    {found.patch.state.value}: {found.patch.summary}")
    for depth in found.patch.depths:
        output.say(f"         {depth.name}: {depth.verdict.value}, {depth.found}")
    if profile.on_cpu and not found.gpus.gpus:
        output.say("gpus     none needed: SGLang computes on the CPU")
    else:
        _print_gpus(found)
    print_shm(shm)
    output.say(f"dumps    {dumps.problem or told(dumps.counts)}")


def _print_gpus(found: Overview) -> None:
    seen, holders = found.gpus, found.gpu_holders
    for words in filter(None, (seen.problem, seen.note, seen.remedy)):
        output.say(f"gpus     {words}")
    for gpu in seen.gpus:
        output.say(f"gpu {gpu.index:<4} {gpu.name}  {gpu.problem or _memory(gpu)}{_nobody(gpu)}")
        for absent in gpu.absent:
            output.say(f"         no {absent}")
        for part in gpu.mig or ():
            output.say(f"         MIG {part.index} {part.name}  {part.problem or _memory(part)}{_nobody(part)}")
        if gpu.mig == ():
            output.say("         MIG is on, and no MIG device is made of it")
    for held in holders.held if holders else ():
        output.say(f"         {held.line}")
    if holders and holders.problem:
        output.say(f"         who holds the GPUs: {holders.problem}")


def _memory(gpu: Gpu | MigDevice) -> str:
    if gpu.memory_used is None:
        return "memory not given"
    return f"{size(gpu.memory_used)} used" + ("" if gpu.memory_total is None else f" of {size(gpu.memory_total)}")


def _nobody(gpu: Gpu | MigDevice) -> str:
    """In many containers memory is used and no process shown: that isn't idle."""
    busy = gpu.memory_used is not None and gpu.memory_used > gpuholders.IN_USE and gpu.processes is None
    return ", by processes that are not shown in the container" if busy else ""
