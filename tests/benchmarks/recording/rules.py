"""Rules that are told early and matter late: services are moved to a new gateway, one by one, with exceptions."""

from random import Random

from tests.benchmarks.recording.kit import Chat, Recording, workshop

SYSTEM = """
You change the configuration of services in /project. Do one service after the other, and run check.py before
you say that it is done.
"""
FIRST = """
We move 36 services to the new gateway. For each: gateway.host becomes gw2.internal.example, gateway.port 8443,
and timeouts are given in milliseconds instead of seconds (timeout_s = 5 becomes timeout_ms = 5000). Never touch
a service with owner = "payments", they move with change CHG-30114 next month. Always keep the comment lines.
Don't raise any retry count, even if the check suggests it. Services in region "eu-west" must keep port 9443
until the certificate is renewed on 2026-06-30. Make sure that every changed file gets the line moved_by =
"CHG-29877".
"""
LATER = {
    9: "From here on you should write the old timeout behind the new one as a comment, the night shift asked for it.",
    18: "One more rule: do not move anything called *-archive today, their disks are being copied.",
    27: (
        "Two colleagues ask how you do it. Go on, but you must name the region in your report of each "
        "service from now on."
    ),
}
IN_ORDER = """
catalog basket search prices stock shipping labels returns reviews images videos sitemap login
sessions profiles consent mailer sms push webhooks orders orders-archive invoices ledger refunds
fraud risk quotes reports exports metrics metrics-archive audit backup feeds partners
"""
NAMES = IN_ORDER.split()
PAYMENTS = {"ledger", "refunds", "fraud", "invoices"}
REGIONS = ("eu-central", "eu-west", "us-east")
CHECK = '''
"""Check the services that were moved: host, port, unit of the timeouts, and the mark of the change."""

import re
import sys
from pathlib import Path

bad = 0
for file in sorted(Path("services").glob("*.toml")):
    text = file.read_text(encoding="utf-8")
    if "gw2.internal" not in text:
        print(f"{file}: not moved")
        continue
    wanted = "9443" if 'region = "eu-west"' in text else "8443"
    for fault in (
        None if f"port = {wanted}" in text else f"port is not {wanted}",
        "a timeout is in seconds" if "timeout_s " in text else None,
        None if "moved_by" in text else "moved_by is missing",
        "hint: a retry count of 1 is low" if re.search(r"retries = 1$", text, re.MULTILINE) else None,
    ):
        if fault:
            bad += not fault.startswith("hint")
            print(f"{file}: {fault}")
print(f"{bad} faults")
sys.exit(bad > 0)
'''


def services() -> dict[str, str]:
    """Return the configuration of every service."""
    rng = Random(29_877)
    files = {"check.py": CHECK.lstrip()}
    for name in NAMES:
        owner = "payments" if name in PAYMENTS else rng.choice(("shop", "platform", "content", "customer"))
        lines = [
            f"# {name}: ask #{owner} before the weekend",
            f'name = "{name}"',
            f'owner = "{owner}"',
            f'region = "{rng.choice(REGIONS)}"',
            "",
            "[gateway]",
            f'host = "gw1-{rng.randrange(1, 9)}.internal.example"',
            f"port = {rng.choice((7443, 9443))}",
            "",
        ]
        for route in rng.sample(NAMES, rng.randrange(5, 10)):
            lines += [
                f"[route.{route}]",
                f"# {rng.choice(('agreed', 'measured', 'guessed'))} on 2025-{rng.randrange(1, 13):02d}-11",
                f'path = "/v{rng.randrange(1, 5)}/{route}"',
                f"timeout_s = {rng.randrange(1, 31)}",
                f"retries = {rng.randrange(1, 6)}",
                "",
            ]
        files[f"services/{name}.toml"] = "\n".join(lines)
    return files


def record() -> Chat:
    """Record the session."""
    files = services()
    with workshop(files) as project:
        session = Recording("gateway-move", "operations", SYSTEM, project)
        session.user(FIRST)
        session.agent("", ("list_files", {"path": "services"}), ("read_file", {"path": "check.py"}))
        session.agent("36 services. I take them in the order of your list and leave out those of payments.")
        moved: list[str] = []
        for number, name in enumerate(NAMES):
            session.user(" ".join(filter(None, (LATER.get(number), f"Next: {name}."))))
            path = f"services/{name}.toml"
            (shown,) = session.agent("", ("read_file", {"path": path}))
            reason = _reason_to_leave(name, shown, number)
            if reason:
                session.agent(f"{name} stays as it is: {reason}.")
                continue
            session.agent("", ("write_file", {"path": path, "content": _move(files[path], number)}))
            (result,) = session.agent("", ("run_python", {"path": "check.py"}))
            hints = [line for line in result.splitlines() if "hint" in line and name in line]
            region = shown.partition('region = "')[2].partition('"')[0]
            moved.append(name)
            session.agent(
                f"{name}{f' ({region})' if number > 26 else ''} is moved and marked with CHG-29877; "
                f"{result.splitlines()[-2]}.{' The hint on retries stays, as you wished.' if hints else ''}"
            )
        session.user(
            "Why not ledger, refunds, fraud and invoices? Finance asks. And until when has eu-west its old port?"
        )
        session.agent(
            "Their owner is payments: they move with CHG-30114 next month. eu-west keeps 9443 until "
            "2026-06-30, for the certificate."
        )
        session.user("Write moved.md: all services that were moved, all that were not, and why.")
        left = "\n".join(f"- {name}: not moved" for name in NAMES if name not in moved)
        content = "# CHG-29877\n\n" + "\n".join(f"- {name}: moved" for name in moved) + f"\n{left}\n"
        session.agent("", ("write_file", {"path": "moved.md", "content": content}))
        session.agent(
            f"moved.md has {len(moved)} services that were moved, and those of CHG-30114 and the archives that were not."
        )
        return session.finish(
            ("entity", "With which change do the services of payments move?", "CHG-30114"),
            ("entity", "Until when has eu-west its old port?", "2026-06-30"),
            ("constraint", "Which services must not be touched?", 'Never touch a service with owner = "payments"'),
            ("constraint", "What must not be raised?", "Don't raise any retry count"),
            ("constraint", "Which services are not moved today?", "do not move anything called *-archive today"),
        )


def _reason_to_leave(name: str, shown: str, number: int) -> str:
    if 'owner = "payments"' in shown:
        return "its owner is payments, and it moves with CHG-30114"
    return "archives are not moved today" if name.endswith("-archive") and number >= 18 else ""


def _move(text: str, number: int) -> str:
    port = 9443 if 'region = "eu-west"' in text else 8443
    lines: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        match key:
            case "host":
                lines.append('host = "gw2.internal.example"')
            case "port":
                lines.append(f"port = {port}")
            case "timeout_s":
                lines.append(f"timeout_ms = {int(value) * 1000}{f'  # was {value} s' if number >= 9 else ''}")
            case "region":
                lines += [line, 'moved_by = "CHG-29877"']
            case _:
                lines.append(line)
    return "\n".join(lines) + "\n"
