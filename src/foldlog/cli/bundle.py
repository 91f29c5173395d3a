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
    from foldlog.bundles import Bundle, BundleReport

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
Request = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="Write a request for a time stamp on it, RFC 3161."),
]
Response = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Only add an authority's answer to the file that is there.",
    ),
]


@command
async def bundle(
    target: Target,
    session: SessionId,
    output: Out = None,
    at: At = None,
    sign: Sign = None,
    request_timestamp: Request = None,
    timestamp: Response = None,
) -> None:
    """Write a session to one file that proves itself."""
    from foldlog.bundles import request_timestamp as request, write_bundle
    from foldlog.cli.ids import check_recorded
    from foldlog.subjects import escape

    if output == DASH:
        raise typer.BadParameter("-o -: a bundle is one file: name it")
    path = output or Path(f"{escape(session, 'session')}.bundle.zip")
    if timestamp is not None:
        if at is not None or sign is not None or request_timestamp is not None:
            raise typer.BadParameter("--timestamp adds to a bundle that is there, and goes alone")
        _stamp(session, path, timestamp, target)
        return
    async with target.connect() as store:
        await check_recorded(store, session)
        until = None if at is None else await store.at(moment(at)).position()
        key = None if sign is None else sign.read_bytes()
        made = await write_bundle(store, session, path, until=until, private_key=key)
    if request_timestamp is not None:
        request_timestamp.write_bytes(request(path))
    if target.json:
        print_json({"path": str(path), "digest": made.digest, "manifest": made.manifest})
    else:
        _show(made)


def _stamp(session: str, path: Path, answer: Path, target: Target) -> None:
    from foldlog.bundles import add_timestamp

    add_timestamp(path, answer.read_bytes(), session_id=session)
    if target.json:
        print_json({"path": str(path)})
    else:
        console().print(f"{printable(str(path))} has a time stamp now")


def _show(made: Bundle) -> None:
    says, out = made.manifest, console()
    included = sum(each.included for each in says.artifacts)
    out.print(f"{says.records:,} records, {included:,} artifacts as of {says.position}")
    out.print(f"digest {made.digest}", soft_wrap=True)
    out.print(printable(str(made.path)), soft_wrap=True)


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
    ca: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="It has to have a time stamp for which one of these certificates stands, PEM.",
        ),
    ] = None,
) -> int:
    """Check a bundle, by itself or against the log.

    One line says what is wrong and where.
    """
    from foldlog import bundles

    public_key = None if key is None else key.read_bytes()
    authorities = None if ca is None else ca.read_bytes()
    if against_log:
        async with target.connect() as store:
            report = await bundles.verify_bundle_with_log(
                store, file, public_key=public_key, authorities=authorities
            )
    else:
        report = bundles.verify_bundle(file, public_key=public_key, authorities=authorities)
    if target.json:
        print_json({**report._asdict(), "findings": [each._asdict() for each in report.findings]})
    else:
        _show_report(report)
    return 0 if report.is_good else 1


def _show_report(report: BundleReport) -> None:
    out = console()
    for finding in report.findings:
        out.print(printable(str(finding)), style="red", soft_wrap=True)
    for note in report.notes:
        out.print(f"note: {printable(note)}", soft_wrap=True)
    says = report.manifest
    if says is not None:
        session, position = printable(says.session_id), says.position
        out.print(f"session {session}: {says.records:,} records as of {position}", soft_wrap=True)
        out.print(f"digest {report.digest}", soft_wrap=True)
    if report.is_good:
        out.print("the bundle is what its manifest says")
