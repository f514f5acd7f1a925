"""Names for runs that were given none."""

import secrets
from hashlib import blake2b

# fmt: off
_ADJECTIVES = (
    "amber", "autumn", "bold", "brave", "bright", "brisk", "calm", "candid", "clever", "copper", "coral",
    "crisp", "curious", "deep", "eager", "early", "emerald", "fair", "fearless", "fine", "fleet",
    "fluent", "gentle", "glad", "golden", "green", "happy", "hazel", "honest", "humble", "ivory",
    "jolly", "keen", "lively", "lucid", "mellow", "merry", "misty", "noble", "patient", "plain", "quick",
    "quiet", "rosy", "serene", "silent", "silver", "snowy", "solar", "steady", "sunny", "swift", "tidal",
    "velvet", "vivid", "warm", "wild", "winter", "wise", "witty",
)
_NOUNS = (
    "acorn", "anchor", "aspen", "atlas", "badger", "beacon", "birch", "bison", "brook", "canyon",
    "cedar", "cliff", "cloud", "comet", "cove", "crane", "creek", "delta", "dune", "eagle", "elm",
    "falcon", "fern", "finch", "fjord", "forest", "fox", "glacier", "grove", "gull", "harbor", "hare",
    "heron", "hill", "island", "kestrel", "lagoon", "lake", "lark", "maple", "meadow", "moss", "oak",
    "orchard", "otter", "owl", "pebble", "pine", "plover", "pond", "prairie", "quartz", "raven", "reef",
    "ridge", "river", "robin", "sparrow", "swan", "willow",
)
# fmt: on


def random_run_name() -> str:
    """Two words and a number, such as `quiet-otter-417`.

    Drawn from the system's randomness: the seeded generators of a training run must not notice us.
    """
    number = 100 + secrets.randbelow(900)
    return f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}-{number}"


def derived_run_name(key: str) -> str:
    """The same two words and number for the same key, for processes that must agree without talking."""
    drawn = int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
    drawn, adjective = divmod(drawn, len(_ADJECTIVES))
    drawn, noun = divmod(drawn, len(_NOUNS))
    return f"{_ADJECTIVES[adjective]}-{_NOUNS[noun]}-{100 + drawn % 900}"
