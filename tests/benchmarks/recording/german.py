"""A session in German: incoming invoices are checked one by one, with tools, and letters to suppliers are written."""

import re
from random import Random

from tests.benchmarks.recording.kit import Chat, Recording, workshop

SYSTEM = """
Du hilfst in der Buchhaltung der Tischlerei Brandner. Die Rechnungen liegen als Text in rechnungen/. Rechne jede
Summe nach, bevor du sie freigibst, und sage genau, was nicht stimmt.
"""
FIRST = """
Guten Morgen! Bitte prüfe die Eingangsrechnungen aus dem März: Summe der Positionen, Umsatzsteuer und
Bestellnummer. Ändere niemals eine Datei in rechnungen/. Beträge unter einem Euro Abweichung sind egal.
Rechnungen von Holz Lehner gibst du nie frei, die prüft Herr Brandner selbst. Schreibe jedes Ergebnis nach
pruefung/maerz.csv. Unser Aktenzeichen ist BU-2026-031, Zahltag ist der 17.04.2026.
"""
SUPPLIERS = (
    "Holz Lehner",
    "Beschlag Kruse",
    "Leim & Lack Oster",
    "Fuhrpark Wimmer",
    "Glas Aumüller",
    "Werkzeug Petzold",
    "Furniere Saller",
)
ITEMS = (
    "Eiche, besäumt, 52 mm",
    "Buche Multiplex 18 mm",
    "Topfbänder, vernickelt",
    "Zylinderschlösser 35 mm",
    "Hartwachsöl, seidenmatt",
    "PUR-Leim, Kartusche",
    "Anfahrt und Entladen",
    "ESG 8 mm, Kanten poliert",
    "Sägeblatt 303 x 30, 60 Zähne",
    "Nussbaumfurnier 0,6 mm",
    "Schubkastenauszüge 500 mm",
    "Schleifscheiben K180, 100 Stück",
    "Lasur Lärche, 5 l",
    "Miete Stapler, Tag",
)
INVOICES = 64
IN_ONE_REQUEST = 8


def invoices() -> dict[str, str]:
    """Return the invoices; about a fifth has a wrong sum, a wrong tax or no order number."""
    rng = Random(31_2026)
    files: dict[str, str] = {}
    for number in range(1, INVOICES + 1):
        name = f"RE-{rng.randrange(10_000, 99_999)}"
        rows = [
            (rng.choice(ITEMS), rng.randrange(1, 24), rng.randrange(350, 48_000)) for _ in range(rng.randrange(8, 22))
        ]
        net = sum(amount * price for _, amount, price in rows)
        fault = rng.choice(("",) * 12 + ("sum", "tax", "order"))
        shown = net + (rng.randrange(900, 90_000) if fault == "sum" else 0)
        tax = round(shown * (0.16 if fault == "tax" else 0.19))
        order = "" if fault == "order" else f"B-{rng.randrange(4_000, 4_999)}"
        positions = (
            f"{place:>3}  {item:<34}{amount:>4} x {_euro(price):>10} = {_euro(amount * price):>12}"
            for place, (item, amount, price) in enumerate(rows, 1)
        )
        files[f"rechnungen/{number:02d}-{name}.txt"] = "\n".join(
            (
                rng.choice(SUPPLIERS),
                f"Rechnung {name}    Datum {rng.randrange(1, 29):02d}.03.2026",
                f"Ihre Bestellung: {order}",
                "",
                *positions,
                "",
                f"Nettosumme: {_euro(shown)}",
                f"Umsatzsteuer 19 %: {_euro(tax)}",
                f"Gesamt: {_euro(shown + tax)}",
                (
                    "Zahlbar innerhalb von 30 Tagen ohne Abzug. Bitte geben Sie bei der Überweisung die "
                    "Rechnungsnummer an."
                ),
                "",
            )
        )
    return files


def record() -> Chat:
    """Record the session."""
    with workshop(invoices()) as project:
        session = Recording("rechnungen-maerz", "office", SYSTEM, project)
        session.user(FIRST)
        session.agent("Ich sehe zuerst nach, was da ist.", ("list_files", {"path": "rechnungen"}))
        session.agent(f"Es sind {INVOICES} Rechnungen. Ich prüfe sie der Reihe nach.")
        paths = [*invoices()]
        table = ["datei;lieferant;rechnung;gesamt;ergebnis"]
        open_ones: list[tuple[str, str, str]] = []
        for start in range(0, len(paths), IN_ONE_REQUEST):
            part = paths[start : start + IN_ONE_REQUEST]
            session.user(f"Weiter mit {part[0].split('/')[1][:2]} bis {part[-1].split('/')[1][:2]}, bitte.")
            for path in part:
                (text,) = session.agent("", ("read_file", {"path": path}))
                supplier, number, total, finding = _check(text)
                table.append(f"{path};{supplier};{number};{total};{finding or 'in Ordnung'}")
                if finding:
                    open_ones.append((supplier, number, finding))
                session.agent(f"{number} von {supplier}, {total} Euro: {finding or 'stimmt, kann bezahlt werden'}.")
            session.agent("", ("write_file", {"path": "pruefung/maerz.csv", "content": "\n".join(table) + "\n"}))
            session.agent(f"{len(table) - 1} von {INVOICES} sind geprüft, {len(open_ones)} davon sind offen.")
        session.user(
            "Schreib jetzt jedem Lieferanten mit offener Rechnung einen kurzen Brief, mit Rechnungsnummer und Grund."
        )
        for supplier, number, finding in open_ones:
            head = f"Betreff: {number}, unser Zeichen BU-2026-031"
            letter = f"{head}\n\nGuten Tag,\n\nwir können die Rechnung nicht freigeben: {finding}.\n"
            if supplier != "Holz Lehner":
                session.agent("", ("write_file", {"path": f"briefe/{number}.txt", "content": letter}))
        session.agent(
            "Die Briefe liegen in briefe/. An Holz Lehner schreibe ich nicht, diese Rechnungen prüft Herr "
            "Brandner selbst."
        )
        session.user("Danke. Welche sind am Zahltag noch offen? Nur die Nummern, mit Lieferant.")
        session.agent(
            "Am 17.04.2026 offen: " + ", ".join(f"{number} ({supplier})" for supplier, number, _ in open_ones) + "."
        )
        return session.finish(
            ("entity", "Wie lautet das Aktenzeichen?", "BU-2026-031"),
            ("entity", "Wann ist Zahltag?", "17.04.2026"),
            ("constraint", "Was darf nicht geändert werden?", "Ändere niemals eine Datei"),
            (
                "constraint",
                "Wessen Rechnungen prüft Herr Brandner selbst?",
                "Rechnungen von Holz Lehner gibst du nie frei",
            ),
        )


def _check(shown: str) -> tuple[str, str, str, str]:
    """Return supplier, number, total and what is wrong, as computed from the text that the tool shows."""
    text = re.sub(r"^ *\d+\t", "", shown, flags=re.MULTILINE)
    supplier, number = text.splitlines()[0], re.search(r"RE-\d+", text)
    net = sum(_cents(value) for value in re.findall(r"= +([\d.,]+)$", text, re.MULTILINE))
    told, tax, total = (
        re.findall(rf"{name}: ([\d.,]+)$", text, re.MULTILINE)[0]
        for name in ("Nettosumme", "Umsatzsteuer 19 %", "Gesamt")
    )
    order = re.search(r"Ihre Bestellung: (\S*)", text)
    findings: list[str] = []
    if abs(_cents(told) - net) >= 100:
        findings.append(f"die Positionen ergeben {_euro(net)} und nicht {told} Euro")
    if abs(_cents(tax) - round(_cents(told) * 0.19)) >= 100:
        findings.append(f"die Umsatzsteuer ist mit {tax} Euro falsch")
    if not (order and order[1]):
        findings.append("die Bestellnummer fehlt")
    if supplier == "Holz Lehner":
        findings.append("prüft Herr Brandner")
    return supplier, number[0] if number else "", total, ", ".join(findings)


def _euro(cents: int) -> str:
    return f"{cents / 100:,.2f}".translate(str.maketrans(",.", ".,"))


def _cents(euro: str) -> int:
    return int(euro.replace(".", "").replace(",", ""))
