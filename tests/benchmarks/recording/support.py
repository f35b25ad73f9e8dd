"""A support chat without tools: a fleet manager and the support of a maker of GPS trackers, over several days, with pasted logs."""

from random import Random

from tests.benchmarks.recording.kit import Chat, Recording

SYSTEM = """
You are the support of Wegmarke, which makes GPS trackers for vans and trailers. You cannot look anything up:
you know what the customer tells you. Be short and exact, ask for what is missing, and repeat numbers as the
customer wrote them.
"""
FIRST = """
Hello, Mirela Popescu of Carpathia Logistics, customer number CL-58120. We have 64 of your trackers (model WM-3,
some WM-4) in our trailers and I will have questions all week. Please never reset a tracker remotely without
asking me, the drivers sleep in the trucks. Always answer with the serial number first, I copy it into our list.
My phone is +40 264 555 0187 if a call is faster. First one: WM3-{serial} has not reported since Friday, what do
I do?
"""
TOPICS: tuple[tuple[str, str], ...] = (
    (
        "{serial} on trailer {plate} stopped at {place} yesterday at {time}. The light is off. Is it dead?",
        (
            "{serial}: a dark light means that the battery is below 3.4 V. Please plug it in for two hours; "
            "the light has to blink green after ten minutes. If it stays dark, the fuse in the cradle is the "
            "next suspect (F2, 1 A). Tell me what you see, and I will note {plate} as open."
        ),
    ),
    (
        "I did that with {serial}. It blinks green now, but the map still shows it in {place}.",
        (
            "{serial}: good, then it is charging. The map shows the last position until it has a fix under "
            "open sky. Let {plate} stand outside for fifteen minutes. If {place} is still shown after "
            "{time}, send me the last lines of its log (hold both buttons until it beeps)."
        ),
    ),
    (
        "Here is the log of {serial}, the driver of {plate} sent it.",
        (
            "{serial}: thank you. The lines with 'no bearer' say that it finds the network but is not let "
            "in, so the position is fine and the SIM is not. Which provider is on the card, and is roaming "
            "on for the country around {place}? Nothing needs to be reset for that."
        ),
    ),
    (
        "The SIM of {serial} is from Orange, ICCID {iccid}. Roaming should be on.",
        (
            "{serial}: the card with ICCID {iccid} needs the APN 'fleet.orange' since the change in spring; "
            "older WM-3 still have 'internet'. You can set it by SMS from your own phone: 'APN "
            "fleet.orange'. It answers with OK within five minutes, without a restart."
        ),
    ),
    (
        (
            "APN sent to {serial}, it answered OK. Now the geofence around our yard in {place} fires twice "
            "an hour for {plate}."
        ),
        (
            "{serial}: the yard's fence is too tight. A WM-3 is exact to 15 m under roofs, and your fence "
            "has 20 m. Make it 60 m, or let it fire after three positions outside. I would change the fence "
            "and leave the tracker as it is."
        ),
    ),
    (
        "We want to swap {serial}: the housing is cracked. How long does that take, and where do I send it?",
        (
            "{serial}: a cracked housing is covered for 36 months. Send it with the form RMA-{number} to our "
            "workshop in Regensburg; the new one is sent on the day on which the old one arrives, usually "
            "{days} days in all. Keep the cradle of {plate}, the new one fits."
        ),
    ),
    (
        "The invoice WM-R-{number} has {serial} twice. We pay one licence for each tracker, don't we?",
        (
            "{serial}: yes, one licence for each. On WM-R-{number} the second line is the WM-4 that replaced "
            "it and kept the old name. I have asked accounting for a corrected invoice; you need not pay the "
            "second line, which is {amount} euros, until it comes."
        ),
    ),
    (
        "Firmware: {serial} has {firmware}. Is the update safe while the truck of {plate} is under way?",
        (
            "{serial}: from {firmware} on the update is loaded in the background, and is put in only when "
            "the ignition is off for twenty minutes. So it is safe under way. It does restart then; since "
            "you do not want restarts without being asked: shall I plan it for {time} on the parking lot in "
            "{place}?"
        ),
    ),
    (
        "Yes for {serial}, but only {plate}, no other. The driver is called {driver}.",
        (
            "{serial}: planned for {time} and for {plate} only; {driver} sees a blue light for about a "
            "minute. I do not touch any other tracker of CL-58120. If the light is still blue after ten "
            "minutes, unplug the cradle once."
        ),
    ),
    (
        "{driver} says that {serial} eats the battery of the trailer. We measured {amount} mA at night.",
        (
            "{serial}: {amount} mA is too much, a sleeping WM-3 takes 4 to 6. It does not sleep if the "
            "motion sensor is set to 'sensitive', which {plate} has since the theft in {place}. Set it to "
            "'normal', or let it sleep from {time} on."
        ),
    ),
)
PLACES = ("Szeged", "Arad", "Linz", "Brno", "Győr", "Ruse", "Trieste", "Passau", "Sibiu", "Graz", "Timișoara", "Košice")
DRIVERS = ("Ionuț", "Zoltán", "Andrei", "Marek", "Luca", "Stoyan", "Petra", "Dragan")
LOG = "{day} {time}:{second:02d} {level} {source}: {message}"
LOG_MESSAGES = (
    "fix lat={lat:.5f} lon={lon:.5f} hdop=1.{second:02d}",
    "bearer request apn=internet cause=33 no bearer",
    "battery {volt:.2f} V, source=cradle",
    "queue: {queue} positions wait",
    "registered roaming plmn=216{second:02d}",
    "sleep refused: motion",
    "sms from +40 264 555 0187: APN?",
)
TICKETS = 12
TOPIC_WITH_LOG = 2
LOG_LINES = 90


def record() -> Chat:
    """Record the session."""
    rng = Random(58_120)
    session = Recording("support-trackers", "support-chat", SYSTEM)
    first = _details(rng)
    session.user(FIRST.format_map(first))
    session.agent(
        f"WM3-{first['serial']}: is its light on? Green means that it has power, dark that it has none. Noted: I reset "
        "nothing without asking you, and I begin with the serial number. Good morning, and welcome back."
    )
    told: list[dict[str, object]] = []
    for ticket in range(TICKETS):
        details = _details(rng)
        told.append(details)
        for number, (question, answer) in enumerate(TOPICS):
            if rng.random() < 0.8 or number == TOPIC_WITH_LOG:
                session.user(question.format_map(details), _log(rng) if number == TOPIC_WITH_LOG else "")
                session.agent(answer.format_map(details))
        if ticket in (5, 10):
            back = told[ticket // 2]
            session.user(
                f"By the way, what was the number of the form for the cracked one of {back['plate']}, and its serial number?"
            )
            session.agent(f"WM3-{back['serial']}: the form is RMA-{back['number']}, for {back['plate']}.")
    session.user(
        "That is all for this week. List the open ones with serial number, plate and what you wait for, "
        "so that I can follow up."
    )
    lines = (
        f"- WM3-{each['serial']}, {each['plate']}: form RMA-{each['number']}, driver {each['driver']}" for each in told
    )
    session.agent("\n".join(lines))
    return session.finish(
        ("memory", "What is the customer number?", "CL-58120"),
        ("memory", "What is the customer's phone number?", "+40 264 555 0187"),
        ("constraint", "What must support not do?", "never reset a tracker remotely without asking me"),
        ("constraint", "How does each answer begin?", "Always answer with the serial number first"),
        ("memory", "How many trackers has the customer?", "64 of your trackers"),
    )


def _details(rng: Random) -> dict[str, object]:
    letters = "".join(rng.choice("ABCDEFGHJKLMNPRSTVXYZ") for _ in range(3))
    return {
        "serial": f"{rng.randrange(100_000, 999_999)}",
        "plate": f"CJ-{rng.randrange(10, 99)}-{letters}",
        "place": rng.choice(PLACES),
        "time": f"{rng.randrange(24):02d}:{rng.randrange(60):02d}",
        "iccid": f"894010{rng.randrange(10**12, 10**13)}",
        "number": rng.randrange(20_000, 99_999),
        "days": rng.randrange(4, 9),
        "amount": rng.randrange(12, 90),
        "firmware": f"4.{rng.randrange(1, 9)}.{rng.randrange(20)}",
        "driver": rng.choice(DRIVERS),
    }


def _log(rng: Random) -> str:
    def line() -> str:
        values = {
            "second": rng.randrange(60),
            "lat": rng.uniform(45, 49),
            "lon": rng.uniform(13, 27),
            "volt": rng.uniform(3.2, 4.2),
            "queue": rng.randrange(300),
        }
        message = rng.choice(LOG_MESSAGES).format_map(values)
        place = {
            "day": f"2026-03-{rng.randrange(2, 7):02d}",
            "time": f"{rng.randrange(24):02d}:{rng.randrange(60):02d}",
        }
        level, source = rng.choice(("I", "I", "W", "E")), rng.choice(("gnss", "modem", "power", "store"))
        return LOG.format_map(values | place | {"level": level, "source": source, "message": message})

    return "\n".join(sorted(line() for _ in range(LOG_LINES)))
