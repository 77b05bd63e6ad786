"""`postmirror doctor`: what is wrong with this installation, and how to mend it."""

import json
import sys
from pathlib import Path

import click

from config.settings import find_config
from server.commands.options import ConfigOption

_EXIT_CODES = {"ok": 0, "warn": 1, "fail": 2}
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@ConfigOption
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@click.option("--agent-user", default="", metavar="NAME", help="Whether this user of the machine can read the data.")
@click.option("--offline", is_flag=True, help="Leave the mail servers alone: no connection, no login.")
def doctor(config_path: Path | None, as_json: bool, agent_user: str, offline: bool) -> None:
    """Look at everything that can be wrong, and name one fix for each fault. Changes nothing, sends nothing.

    Each login is tried once. Exits 0 when all is well, 1 for warnings, 2 when something is broken.
    """
    from server.doctor.examination import examine
    from server.doctor.finding import worst

    findings = []
    for finding in examine(find_config(config_path), agent_user, is_offline=offline):
        findings.append(finding)
        if not as_json:
            mark = click.style(f"{finding.state:4}", fg=_COLOURS[finding.state])
            click.echo(f"{mark}  {finding.name}  {finding.about}: {finding.says}")
            if finding.fix:
                click.echo(f"      -> {finding.fix}")
    if as_json:
        click.echo(json.dumps({"state": worst(findings), "findings": [each.as_json() for each in findings]}))
    sys.exit(_EXIT_CODES[worst(findings)])
