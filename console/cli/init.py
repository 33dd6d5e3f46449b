"""hsconsole init."""

from __future__ import annotations

import dataclasses

import click

from console.cli import output
from console.cli.session import interactive, open_agent
from console.config import load, write
from console.config.profile import Profile
from console.errors import ConfigError
from console.operations import calls, init
from console.ssh.route import expanded
from console.text import one_line, size
from remote.wire.host import Survey


def _absolute(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """A profile is read from any folder."""
    return str(expanded(path).absolute()) if path else None


@click.command("init")
@output.json_option
@click.option("--name", help="The profile's name (default: the host's).")
@click.option("--host", help="The container: a name from ~/.ssh/config, or an address.")
@click.option("--user", help="Log in as (default: as ~/.ssh/config says).")
@click.option("--port", type=click.IntRange(1, 65535), help="The ssh port.")
@click.option("--key", callback=_absolute, help="The private key file.")
@click.option("--ssh-config", callback=_absolute, help="A file to read instead of ~/.ssh/config.")
@click.option("--python", default="", help="The Python of SGLang's environment.")
@click.option("--model", "model_path", default="", help="The model's folder in the container.")
@click.option("--proxmox", "proxmox_host", default="", help="The Proxmox host that the container runs on.")
@click.option("--vmid", type=click.IntRange(100), help="The container's id there.")
@click.option("--dry-run", is_flag=True, help="Show the profile; write nothing.")
@click.option("--force", is_flag=True, help="Replace a profile of that name.")
def command(
    as_json: bool, name: str | None, host: str | None, dry_run: bool, force: bool, **given: str | int | None
) -> None:
    """Probe a container and write its profile: which Python has SGLang, GPUs, /dev/shm, models.

    On a terminal it asks for what can't be probed.
    """
    if not host:
        if not interactive():
            raise ConfigError("no host was named", "hsconsole init --host NAME")
        host = str(click.prompt("Container (name from ~/.ssh/config, or address)", err=True))
    name = name or init.name_for(host)
    if not force and not dry_run:
        write.must_be_free(name)
    answers = init.Answers(host=host, **given)  # type: ignore[arg-type]  # click made them of the right types
    asks = interactive() and not as_json
    if not asks and bool(answers.proxmox_host) != (answers.vmid is not None):
        raise click.UsageError("--proxmox and --vmid go together.")
    with open_agent(init.provisional(answers)) as agent:
        survey = calls.survey(agent, (answers.python,) if answers.python else ())
    if not as_json:
        _print_survey(survey)
    answers = _complete(answers, survey) if asks else answers
    profile = init.build(name, answers, survey)
    _finish(profile, as_json=as_json, dry_run=dry_run, force=force)


def _print_survey(survey: Survey) -> None:
    click.echo(f"On {one_line(survey.hostname)}:")
    for found in survey.interpreters:
        what = f"sglang {found.sglang_version}" if found.sglang_version else found.problem or "no sglang"
        click.echo(f"  {one_line(found.path)}: Python {one_line(found.version)}, {one_line(what)}")
    click.echo(f"  GPUs: {one_line(', '.join(survey.gpus) or survey.gpu_problem)}")
    click.echo(f"  /dev/shm: {size(survey.shm_free)} of {size(survey.shm_size)} free")
    for model in survey.models:
        click.echo(f"  model: {one_line(model)}")


def _complete(answers: init.Answers, survey: Survey) -> init.Answers:
    """Ask for what is not given, offering what was found."""
    usable = init.interpreters(survey)
    python = answers.python or click.prompt(
        "Python of SGLang's environment", default=usable[0].path if usable else None, err=True
    )
    model_path = answers.model_path or click.prompt(
        "Model folder", default=next(iter(init.models(survey)), None), err=True
    )
    host = answers.proxmox_host or click.prompt("Proxmox host (empty: none)", default="", show_default=False, err=True)
    vmid = answers.vmid or (click.prompt("Container id there", type=click.IntRange(100), err=True) if host else None)
    return dataclasses.replace(answers, python=python, model_path=model_path, proxmox_host=host, vmid=vmid)


def _finish(profile: Profile, *, as_json: bool, dry_run: bool, force: bool) -> None:
    write.refuse(profile)
    text = write.render(profile)
    path = load.path_of(profile.name)
    exists = write.is_taken(profile.name)
    if not dry_run:
        write.write(profile, overwrite=force)
    if as_json:
        output.print_json({"name": profile.name, "file": str(path), "written": not dry_run, "toml": text})
        return
    for line in text.splitlines():
        output.say(line)
    click.echo(f"\n{'Would write' if dry_run else 'Wrote'} {path}")
    if dry_run and exists and not force:
        click.echo("It exists already: only with --force is it replaced.")
    if not dry_run:
        click.echo(f"Next: hsconsole --profile {profile.name} doctor")
