"""Writes tickets.csv: made-up messages to a shop, with their topics.

    python examples/tickets.py

No message is anybody's. Each has one to three topics out of twelve, from common to rare; a topic is
put into words in one of its ways, a quarter of the time in words that mean another topic as well,
between sentences about nothing or about what is no topic of the message. One topic in thirty was
forgotten by whoever marked the messages. A customer writes several, and comes back to his or her
own subjects.
"""

from __future__ import annotations

import csv
import random
from datetime import date, timedelta
from pathlib import Path

FILE = Path(__file__).with_name("tickets.csv")
ROWS, CUSTOMERS, FORGOTTEN = 1200, 340, 1 / 30
THINGS = (
    *("kettle", "lamp", "headphones", "backpack", "blender", "desk chair", "phone case"),
    *("keyboard", "tent", "coffee machine", "bike light", "rain jacket", "toaster", "smart watch"),
)
DAYS = ("Monday", "Tuesday", "Friday", "last week", "two weeks ago", "the 3rd", "yesterday")
TOPICS: dict[str, tuple[int, tuple[str, ...]]] = {
    "delivery": (
        30,
        (
            "the {thing} should have arrived on {day} and is still not here",
            "tracking has not moved since {day}",
            "the courier says nobody was home, but I was in all day",
            "where is my parcel with the {thing}",
            "can you send it to a different address",
            "it took three weeks to get here",
        ),
    ),
    "refund": (
        24,
        (
            "I want my money back",
            "when will you return the amount I paid for the {thing}",
            "please refund the order",
            "you promised the money on {day} and my account shows nothing",
            "I sent the {thing} back and have not been paid since",
        ),
    ),
    "billing": (
        22,
        (
            "my card was charged twice for the {thing}",
            "the amount on my statement is not what I ordered",
            "there is a charge from {day} that I do not recognise",
            "the discount code was not taken off",
            "why do I pay for delivery when the {thing} was free of it",
        ),
    ),
    "damaged": (
        18,
        (
            "the {thing} arrived with a crack",
            "the box was crushed and the {thing} is bent",
            "one side of the {thing} is scratched",
            "it came in pieces",
            "there is a dent in the {thing} that was there when I opened it",
        ),
    ),
    "not working": (
        18,
        (
            "the {thing} does not switch on",
            "the {thing} stopped after two days",
            "the battery does not charge any more",
            "it makes a loud noise and then turns itself off",
            "one button of the {thing} does nothing",
        ),
    ),
    "login": (
        14,
        (
            "I cannot sign in to my account",
            "the password mail never comes",
            "the site says my account is locked",
            "the code you send me is always wrong",
        ),
    ),
    "wrong item": (
        11,
        (
            "I ordered a {thing} and got something else",
            "you sent the {thing} in the wrong colour",
            "this is not the size on the order",
            "the parcel had somebody else's {thing} in it",
        ),
    ),
    "cancel": (
        10,
        (
            "please cancel the order before it leaves",
            "I do not need the {thing} any more, stop the order",
            "I changed my mind on {day}, can it still be stopped",
        ),
    ),
    "praise": (
        9,
        (
            "the {thing} is lovely",
            "your colleague on the phone was a great help",
            "best shop I have used",
            "it arrived a day early, well done",
        ),
    ),
    "app": (
        8,
        (
            "the app closes as soon as I open the basket",
            "since the update on {day} the app shows a white page",
            "I cannot pay in the app, only on the site",
        ),
    ),
    "warranty": (
        5,
        (
            "is this still under guarantee",
            "I bought it eleven months ago, who pays for the repair",
            "how long does the warranty of the {thing} run",
        ),
    ),
    "privacy": (
        2,
        (
            "please delete all data you hold about me",
            "why do I get advertising after I objected",
            "my address was shown to another customer",
        ),
    ),
}
EITHER = (
    ("the code does not work", "login", "billing"),
    ("I want to send the {thing} back", "refund", "wrong item"),
    ("it does not open", "app", "damaged"),
    ("I was told it would take five days", "delivery", "refund"),
    ("can you replace the {thing}", "damaged", "not working"),
    ("who pays for this", "warranty", "billing"),
    ("please stop this", "cancel", "privacy"),
    ("nothing happens when I press it", "app", "not working"),
    ("I never got the mail about it", "login", "delivery"),
    ("that was quick", "praise", "delivery"),
    ("I would like to change the order", "cancel", "wrong item"),
    ("somebody else seems to have my details", "privacy", "login"),
)
NO_TOPIC = (
    "The delivery itself was fine.",
    "I do not want a refund.",
    "My card is not the problem.",
    "The box was in order.",
    "I can sign in, that is not it.",
    "There is nothing to cancel.",
    "I have read the warranty page.",
    "I use the app on an old phone.",
    "The colour is what I ordered.",
)
OFTEN_WITH = {"damaged": "refund", "not working": "warranty", "wrong item": "delivery"}
OPENINGS = ("Hello,", "Hi,", "Good morning,", "Dear team,", "", "", "To whom it may concern,")
FILLERS = (
    *("I have been a customer for years.", "Order number below.", "I tried to call on {day}."),
    *("Somebody told me to write here.", "It was a gift.", "I am away from {day}.", "", "", ""),
)
ENDINGS = ("Thanks", "Please answer soon.", "Regards", "", "This is the second time I write.")


def rows(seed: int = 0) -> list[tuple[str, str, str, str, str]]:
    """Id, day, customer, message and topics of each row, in the order of time."""
    r = random.Random(seed)
    tone = [(r.choice(OPENINGS), r.choice(ENDINGS), r.random()) for _ in range(CUSTOMERS)]
    names, weights = list(TOPICS), [weight for weight, _ in TOPICS.values()]
    own = [r.choices(names, weights)[0] for _ in range(CUSTOMERS)]
    found = []
    for at in range(ROWS):
        customer = int(CUSTOMERS * r.random() ** 1.5)
        opening, ending, shouting = tone[customer]
        topics = set(r.choices(names, weights, k=r.choices((1, 2, 3), (55, 35, 10))[0]))
        topics |= {own[customer]} if r.random() < 0.3 else set()
        topics |= {b for a, b in OFTEN_WITH.items() if a in topics and r.random() < 0.4}
        thing = r.choice(THINGS)
        said = [r.choice(_ways(topic, r.random() < 0.25)) for topic in sorted(topics)]
        r.shuffle(said)
        said = [s[0].upper() + s[1:] + "." for s in said]
        for more in (FILLERS, NO_TOPIC) if r.random() < 0.4 else (FILLERS,):
            said.insert(r.randrange(len(said) + 1), r.choice(more))
        text = " ".join(part for part in (opening, *said, ending) if part)
        text = text.format(thing=thing, day=r.choice(DAYS))
        if shouting > 0.9:
            text = text.upper().replace(".", "!")
        marked = [t for t in sorted(topics) if r.random() > FORGOTTEN]
        day = date(2025, 1, 1) + timedelta(days=at * 365 // ROWS)
        found.append((f"T{at + 1:04d}", str(day), f"C{customer:03d}", text, "; ".join(marked)))
    return found


def _ways(topic: str, unclear: bool) -> list[str] | tuple[str, ...]:
    """What is said of a topic, or what is said of another one, too."""
    return [said for said, *of in EITHER if topic in of] if unclear else TOPICS[topic][1]


def main() -> None:
    """Write the file anew, the same to the byte each time."""
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "received", "customer", "text", "topics"))
        writer.writerows(rows())


if __name__ == "__main__":
    main()
