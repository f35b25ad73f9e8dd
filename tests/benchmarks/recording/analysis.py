"""Data analysis: an agent writes small programs, runs them on generated orders, and corrects itself when the data is not clean."""

import textwrap
from random import Random

from tests.benchmarks.recording.kit import Chat, Recording, workshop

SYSTEM = """
You analyse data in /project/data with small Python programs of the standard library. Look at the data before
you trust it.
"""
FIRST = """
In data/orders.csv are last year's orders, in data/customers.csv the customers, in data/returns.csv what came
back. I need the revenue by region and month for the board. Never change the files in data/. Amounts are in
cents; always show euros in the tables. Orders of the customer KD-0007 are our own tests, leave them out of
everything. The board meets on 2026-03-18.
"""
REGIONS = ("north", "south", "east", "west")
PRODUCTS = ("AX-100", "AX-220", "BR-015", "BR-080", "CT-400", "CT-410", "DL-009", "EV-731")
COMMON = """
import csv, sys
from collections import Counter, defaultdict

def read(name):
    with open(f"data/{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=";"))

customers = {row["customer"]: row for row in read("customers")}
orders = [row for row in read("orders") if row["customer"] != "KD-0007"]
"""
CLEAN = """
def cents(row):
    return int(row["cents"].replace(".", "").replace("'", "")) if row["cents"] else 0

seen = set()
clean = []
for row in orders:
    if row["order"] not in seen and row["customer"] in customers:
        seen.add(row["order"])
        clean.append(row)
orders = clean
"""
STEPS: tuple[tuple[str, str, str, str], ...] = (
    (
        "",
        "revenue.py",
        COMMON
        + """
table = defaultdict(Counter)
for row in orders:
    table[customers[row["customer"]]["region"]][row["date"][:7]] += int(row["cents"])
for region, months in sorted(table.items()):
    for month, value in sorted(months.items()):
        print(f"{region:6} {month} {value / 100:12.2f}")
""",
        "It fails: not every order has a clean amount or a known customer. I look at what is wrong before I go on.",
    ),
    (
        "",
        "check.py",
        COMMON
        + """
numbers = Counter(row["order"] for row in orders)
for row in orders:
    faults = []
    if not row["cents"].isdigit(): faults.append(f"amount {row['cents']!r}")
    if row["customer"] not in customers: faults.append(f"unknown customer {row['customer']}")
    if numbers[row["order"]] > 1: faults.append("order is there twice")
    if faults: print(row["order"], row["date"], "; ".join(faults))
""",
        (
            "There are amounts with a thousands separator, customers that are not in the list, and orders "
            "that are there twice."
        ),
    ),
    (
        (
            "Take the amounts with a separator as what they mean, count an order once, and leave unknown "
            "customers out, but list them. Go on."
        ),
        "revenue.py",
        COMMON
        + CLEAN
        + """
table = defaultdict(Counter)
for row in orders:
    table[customers[row["customer"]]["region"]][row["date"][:7]] += cents(row)
for region, months in sorted(table.items()):
    for month, value in sorted(months.items()):
        print(f"{region:6} {month} {value / 100:12.2f}")
""",
        "This is the revenue by region and month, without KD-0007, without doubles, without unknown customers, in euros.",
    ),
    (
        "Which customers make the most of it? The first sixty, with their region.",
        "customers.py",
        COMMON
        + CLEAN
        + """
sums = Counter()
for row in orders: sums[row["customer"]] += cents(row)
for place, (customer, value) in enumerate(sums.most_common(60), 1):
    print(f"{place:3} {customer} {customers[customer]['name']:24} {customers[customer]['region']:6} {value / 100:12.2f}")
""",
        "These are the sixty largest customers.",
    ),
    (
        "And by product and quarter?",
        "products.py",
        COMMON
        + CLEAN
        + """
table = defaultdict(Counter)
for row in orders: table[row["product"]][(int(row["date"][5:7]) + 2) // 3] += cents(row)
for product, quarters in sorted(table.items()):
    print(product, *(f"Q{q}: {v / 100:12.2f}" for q, v in sorted(quarters.items())))
""",
        "That is the table by product and quarter.",
    ),
    (
        "Which returns are strange? I heard of returns without an order.",
        "returns.py",
        COMMON
        + CLEAN
        + """
known = {row["order"]: row for row in orders}
for row in read("returns"):
    if row["order"] not in known: print(row["return"], row["order"], "no such order")
    elif row["date"] < known[row["order"]]["date"]: print(row["return"], row["order"], "came back before it was sent")
""",
        "These returns have no order, or came back before the order was made.",
    ),
    (
        "What is the share of returns by product? Print every order that came back, too.",
        "shares.py",
        COMMON
        + CLEAN
        + """
known = {row["order"]: row for row in orders}
back = [row for row in read("returns") if row["order"] in known]
for row in back: print(row["return"], row["order"], known[row["order"]]["product"], row["reason"])
count, all_of = Counter(known[row["order"]]["product"] for row in back), Counter(row["product"] for row in orders)
for product in sorted(all_of): print(f"{product} {count[product] / all_of[product]:.1%} of {all_of[product]}")
""",
        "The shares by product are at the end of the output.",
    ),
    (
        "Is there a weekday effect? By region, please.",
        "weekdays.py",
        COMMON
        + CLEAN
        + """
import datetime
table = defaultdict(Counter)
for row in orders:
    table[customers[row["customer"]]["region"]][datetime.date.fromisoformat(row["date"]).isoweekday()] += cents(row)
for region, days in sorted(table.items()): print(region, *(f"{day}: {value / 100:10.2f}" for day, value in sorted(days.items())))
""",
        "By weekday there is no effect worth a slide: the regions differ more than the days.",
    ),
    (
        "Then the daily revenue, so that I can see the outliers myself.",
        "daily.py",
        COMMON
        + CLEAN
        + """
days = defaultdict(Counter)
for row in orders: days[row["date"]][customers[row["customer"]]["region"]] += cents(row)
for day, regions in sorted(days.items()):
    print(day, *(f"{name} {regions[name] / 100:9.2f}" for name in ("north", "south", "east", "west")))
""",
        "That is every day of the year; the largest days are those of single large orders.",
    ),
    (
        "Which orders are above 9,000 euros? Sort them by region.",
        "large.py",
        COMMON
        + CLEAN
        + """
large = sorted((customers[r["customer"]]["region"], -cents(r), r["order"], r["customer"]) for r in orders if cents(r) > 900_000)
for region, value, order, customer in large: print(region, order, customer, f"{-value / 100:.2f}")
""",
        "These are the orders above 9,000 euros.",
    ),
)
LAST = """
Write report.md for the board: the revenue by region, the ten largest customers, the share of returns by
product, and what was left out of the data and why. Put the date of the meeting on top.
"""


def data() -> dict[str, str]:
    """Return the files, the same in every run."""
    rng = Random(20_260_318)
    customers = [f"KD-{number:04d}" for number in range(1, 121)]
    lines = {
        "customers": ["customer;name;region", *(f"{each};{_name(rng)};{rng.choice(REGIONS)}" for each in customers)],
        "orders": ["order;date;customer;product;cents"],
        "returns": ["return;order;date;reason"],
    }
    for number in range(1, 1_501):
        order = f"A-{700_000 + number}"
        date = f"2025-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
        customer = rng.choice(customers) if rng.random() > 0.01 else f"KD-{rng.randrange(900, 999):04d}"
        cents = rng.randrange(1_900, 1_000_000)
        amount = f"{cents // 1000}.{cents % 1000:03d}" if rng.random() < 0.02 else str(cents)
        line = f"{order};{date};{customer};{rng.choice(PRODUCTS)};{amount}"
        lines["orders"] += [line] * (2 if rng.random() < 0.01 else 1)
        if rng.random() < 0.08:
            of = order if rng.random() > 0.05 else f"A-{rng.randrange(800_000, 900_000)}"
            reason = rng.choice(("damaged", "too late", "wrong article", "no reason given"))
            lines["returns"].append(f"R-{len(lines['returns']):05d};{of};2025-12-{rng.randrange(1, 31):02d};{reason}")
    return {f"data/{name}.csv": "\n".join(each) + "\n" for name, each in lines.items()}


def _name(rng: Random) -> str:
    first = rng.choice(
        ("Hartmann", "Olsson", "Ferrari", "Nowak", "Dubois", "Keller", "Jansen", "Silva", "Kovac", "Brandt")
    )
    return f"{first} {rng.choice(('GmbH', 'AB', 'SpA', 'SA', 'BV', 'KG', 'Lda'))} {rng.randrange(10, 99)}"


def record() -> Chat:
    """Record the session."""
    with workshop(data()) as project:
        session = Recording("orders-analysis", "data-analysis", SYSTEM, project)
        session.user(FIRST)
        session.agent(
            "I look at the files first.",
            ("list_files", {"path": "data"}),
            *(("read_file", {"path": f"data/{name}.csv", "end": 120}) for name in ("orders", "customers", "returns")),
        )
        outputs: dict[str, str] = {}
        for request, program, code, finding in STEPS:
            if request:
                session.user(request)
            session.agent("", ("write_file", {"path": program, "content": code.lstrip()}))
            (outputs[program],) = session.agent("", ("run_python", {"path": program}))
            session.agent(finding)
        session.user(LAST)
        report = _report(outputs)
        session.agent("", ("write_file", {"path": "report.md", "content": report}))
        session.agent(
            "report.md is written; KD-0007 is in none of its tables, and the files in data/ are as they were."
        )
        return session.finish(
            ("entity", "Which customer's orders are tests?", "KD-0007"),
            ("entity", "When does the board meet?", "2026-03-18"),
            ("constraint", "What must not be changed?", "Never change the files in data/"),
            ("constraint", "In which unit are the tables?", "always show euros in the tables"),
        )


def _report(outputs: dict[str, str]) -> str:
    regions = dict.fromkeys(REGIONS, 0.0)
    for line in outputs["revenue.py"].splitlines()[:-1]:
        region, _, value = line.split()
        regions[region] += float(value)
    top = outputs["customers.py"].splitlines()[:10]
    shares = [line for line in outputs["shares.py"].splitlines() if "% of" in line]
    faults = outputs["check.py"].splitlines()[:-1]
    return "\n".join(
        (
            "# Orders of 2025, for the board on 2026-03-18",
            "",
            "## Revenue by region",
            *(f"- {region}: {value:,.2f} euros" for region, value in regions.items()),
            "",
            "## Largest customers",
            *(f"- {' '.join(line.split())}" for line in top),
            "",
            "## Returns",
            *(f"- {line}" for line in shares),
            "",
            textwrap.fill(
                f"Left out: KD-0007 and unknown customers. {len(faults)} lines of data/orders.csv had a fault:", 120
            ),
            *(f"- {line}" for line in faults),
            "",
        )
    )
