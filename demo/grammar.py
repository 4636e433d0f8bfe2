"""The template language of the demo's text: one string stands for many sentences.

    [a|b|c]   one of the alternatives, chosen evenly; they nest, and one may be empty
    {key}     env["key"], put in before the choice is made, so a value may hold choices of its own
    {Key}     the same with its first letter made a capital

Randomness comes only from the `rng` handed in: the same seed gives the same text.
"""

import re

KEY = re.compile(r"\{([A-Za-z_]+)\}")
CHOICE = re.compile(r"\[([^\[\]]*)\]")
ARTICLE = re.compile(r"\b([Aa]) (?=(?!uni|one\b)[aeiou]|hones)")


def capital(text):
    return text[:1].upper() + text[1:]


def expand(rng, template, env):
    """One sentence (or paragraph) from `template`. Unknown keys are a bug and raise KeyError."""

    def value(match):
        key = match.group(1)
        return env[key] if key in env else capital(env[key[0].lower() + key[1:]])

    def choose(match):
        return rng.choice(match.group(1).split("|"))

    while KEY.search(template):
        template = KEY.sub(value, template)
    while CHOICE.search(template):
        template = CHOICE.sub(choose, template)
    return ARTICLE.sub(r"\1n ", re.sub(r"  +", " ", template)).strip()


def expand_all(rng, templates, env):
    """Every template in order, joined by blanks, each sentence beginning with a capital."""
    parts = [expand(rng, template, env) for template in templates]
    return " ".join(capital(part) for part in parts if part)
