"""`foldlog bundle` and `foldlog verify-bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.moments import At, moment
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable
from foldlog.cli.standard import DASH

if TYPE_CHECKING:
    from foldlog.bundles import BundleReport

Out = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", dir_okay=False, help="The file.", show_default="SESSION.bundle.zip"
    ),
]
Sign = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Sign it with this Ed25519 key, as PEM."),
]


@command
async def bundle(
    target: Target,
    session: SessionId,
    output: Out = None,
    at: At = None,
    sign: Sign = None,
) -> None:
    """Write a session to one file that proves itself."""
    from foldlog.bundles import write_bundle
    from foldlog.cli.export import print_exported
    from foldlog.cli.ids import check_recorded
    from foldlog.subjects import escape

    if output == DASH:
        raise typer.BadParameter("-o -: a bundle is one file: name it")
    path = output or Path(f"{escape(session, 'session')}.bundle.zip")
    key = None if sign is None else sign.read_bytes()
    async with target.connect() as store:
        await check_recorded(store, session)
        until = None if at is None else moment(at)
        made = await write_bundle(store, session, path, until=until, private_key=key)
    print_exported(target, path, made)
    if not target.json:
        console().print(f"sha256 {made.sha256}", soft_wrap=True, highlight=False)


@command
async def verify_bundle(
    target: Target,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The bundle.")],
    against_log: Annotated[
        bool, typer.Option("--against-log", help="Compare it with the log, too.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="It has to be signed with this key, PEM."),
    ] = None,
) -> int:
    """Check a bundle, by itself or against the log.

    One line says what is wrong and where.
    """
    from foldlog import bundles

    public_key = None if key is None else key.read_bytes()
    if against_log:
        async with target.connect() as store:
            report = await bundles.verify_bundle_with_log(store, file, public_key=public_key)
    else:
        report = bundles.verify_bundle(file, public_key=public_key)
    if target.json:
        holds = None if report.holds is None else report.holds._asdict()
        findings = [each._asdict() for each in report.findings]
        print_json({"findings": findings, "notes": report.notes, "holds": holds})
    else:
        _show_report(report)
    return 0 if report.is_good else 1


def _show_report(report: BundleReport) -> None:
    out = console()
    for finding in report.findings:
        out.print(printable(str(finding)), style="red", soft_wrap=True)
    for note in report.notes:
        out.print(f"note: {printable(note)}", soft_wrap=True)
    if (holds := report.holds) is not None:
        session, until = printable(str(holds.header.session_id)), holds.header.until
        out.print(f"session {session}: {holds.records:,} records, up to {until}", soft_wrap=True)
        out.print(f"sha256 {holds.sha256}", soft_wrap=True)
    if report.is_good:
        out.print("the bundle is what it says")
