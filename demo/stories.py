"""Little stories: draw a cast (who, where, what), tell one plot with it. `python stories.py` prints a few."""

import random

import words
from grammar import capital, expand, expand_all
from plots import ENDINGS, OPENINGS, PLOTS


def gender(rng, kind):
    if kind in words.SHE_KINDS:
        return "she"
    if kind in words.HE_KINDS:
        return "he"
    return rng.choice(["she", "he"])


def person(rng, kind):
    """(kind, name, she/he): the parts of one character that its pronouns follow from."""
    pronoun = gender(rng, kind)
    if rng.random() < 0.06:
        return kind, made_up_name(rng), pronoun
    return kind, rng.choice(words.SHE_NAMES if pronoun == "she" else words.HE_NAMES), pronoun


def made_up_name(rng):
    """A name nobody has, so that the model learns to take up any name it is given."""
    return capital("".join(rng.choice(words.SYLLABLES) for _ in range(rng.choice([2, 2, 3]))) + rng.choice(["", "", "n", "s", "r", "x", "lla", "to", "k"]))


def draw_kind(rng):
    roll = rng.random()
    if roll < 0.86:
        return rng.choice(words.KINDS)
    kind = rng.choice(words.words(words.ODD_KINDS)) if roll < 0.97 else rng.choice(words.KINDS)
    return rng.choice(words.ODD_TRAITS) + " " + kind if roll > 0.95 else kind


def put_person(env, prefix, character):
    kind, name, pronoun = character
    she = pronoun == "she"
    env.update({prefix + "k": kind, prefix + "s": pronoun, prefix + "o": "her" if she else "him", prefix + "p": "her" if she else "his"})
    env["f" if prefix else "h"] = name


def the(noun):
    """'a lake' -> 'the lake'; what has another article, or none, stays."""
    return "the " + noun.split(" ", 1)[1] if noun.startswith(("a ", "an ")) else noun


def fixed(rng, template):
    """A template's choices made once, so that every use in a story agrees."""
    return expand(rng, template, {})


def draw_cast(rng, kind=None, place=None, thing=None, friend=None, name=None):
    """The env of one story. What is given is kept, the rest is drawn; hero and friend differ in kind and name."""
    env = {}
    hero = person(rng, kind or draw_kind(rng))
    if name:
        hero = (hero[0], name, "she" if name in words.SHE_NAMES else "he")
    other = person(rng, friend or draw_kind(rng))
    while (other[0] == hero[0] and not friend) or other[1] == hero[1]:
        other = person(rng, friend or draw_kind(rng))
    put_person(env, "", hero)
    put_person(env, "f", other)
    at, where, detail, smell = next(row for row in words.PLACES if row[1] == place) if place else rng.choice(words.PLACES)
    place_b = rng.choice([row[1] for row in words.PLACES if row[1] != where])
    thing = thing or rng.choice(words.THINGS)
    season, sign, air = rng.choice(words.SEASONS)
    skill, skilling, goal = rng.choice(words.SKILLS)
    fear, worst, calm = rng.choice(words.FEARS)
    env.update(
        t=rng.choice(words.TRAITS), t_f=rng.choice(words.TRAITS), at=at, place=where, the_place=the(where), place_b=place_b, detail=detail, smell=smell,
        thing=thing, thing_b=rng.choice([w for w in words.THINGS if w != thing]), food=rng.choice(words.FOODS), colour=rng.choice(words.COLOURS),
        season=season, sign=sign, air=air, time=rng.choice(words.TIMES), shout=rng.choice(["leave me alone", "go away"]), greeting=rng.choice(["good morning", "hello, friend"]), skill=skill, skilling=skilling, goal=goal, fear=fear, worst=worst, calm=calm,
        kb=rng.choice([k for k in words.words(words.ANIMALS) if k not in (hero[0], other[0])]), oself="herself" if hero[2] == "she" else "himself")
    env["p_f"] = env["fp"]
    return env


def mentions(paragraphs, key):
    return any("{" + key + "}" in t or "{" + capital(key) + "}" in t for paragraph in paragraphs for t in paragraph)


def pick_plot(rng, keys):
    """A plot that speaks of everything in `keys` (such as a thing that was asked for)."""
    names = [name for name, (_, paragraphs) in PLOTS.items() if all(mentions(paragraphs, key) for key in keys)]
    return rng.choice(names)


def tell(rng, env, plot):
    """The text of one story: an opening, the plot's paragraphs, perhaps an ending."""
    virtue, paragraphs = PLOTS[plot]
    env = dict(env, moral=fixed(rng, words.MORALS[virtue]))
    blocks = [[rng.choice(OPENINGS)] + paragraphs[0]] + paragraphs[1:]
    text = [expand_all(rng, block, env) for block in blocks]
    ending = expand(rng, rng.choice(ENDINGS), env)
    if ending:
        text[-1] += " " + ending
    return rng.choice(["\n\n", "\n\n", " "]).join(text)


LATER = ["[Some weeks later|A year later|When {season} was over|Not long after that], [something else happened|there was another adventure|another day came to remember].", "But that was not all that happened to {h}[ that year|].", "[Chapter two.|The second part of the story.]"]


def tell_long(rng, env):
    """Two plots one after the other with the same hero and friend, for those who ask for a long story."""
    first, second = rng.sample(list(PLOTS), 2)
    more = dict(env, moral=fixed(rng, words.MORALS[PLOTS[second][0]]), time=rng.choice(words.TIMES), thing=rng.choice(words.THINGS))
    blocks = [[rng.choice(LATER)] + PLOTS[second][1][0]] + PLOTS[second][1][1:]
    return tell(rng, env, first) + "\n\n" + "\n\n".join(expand_all(rng, block, more) for block in blocks)


SHORT = [
    "{Time} {h} [lost|could not find] {p} {thing}. {F} the {fk} helped {o} to look, and they found it near {detail}.",
    "{Time} {h} met a {fk} named {f}, who was [sad|hungry|cold]. {H} shared {food} with {fo}, and they became friends.",
    "{S} wanted to {skill} {goal}. {F} the {fk} showed {o} how, and after many days it worked.",
    "{S} was afraid of {fear}. But when {f} the {fk} needed help, {h} went out all the same and was very brave.",
    "{Time} {h} found a {thing} and gave it to {f}, a {fk}, who had always wanted one.",
    "{Time} {h} and {p} friend {f}, a {fk}, went to see {place_b}. [They sang all the way there and all the way back.|It was a long way, but they were happy.]",
]


def tell_short(rng, env):
    """Three or four sentences, for those who ask for a short story."""
    ending = rng.choice(["{H} was [very |]happy[ that day|].", "And that was a good day.", "They [laughed|had {food} together], and then it was time to sleep.", "The end."])
    return expand_all(rng, [rng.choice(OPENINGS[:3] + OPENINGS[4:5]), rng.choice(SHORT), ending], env)


def plain_story(rng):
    """A story as a document of its own, sometimes with a title."""
    env = draw_cast(rng)
    plot = pick_plot(rng, [])
    text = tell_long(rng, env) if rng.random() < 0.08 else tell(rng, env, plot)
    if rng.random() < 0.15:
        text = text.split(". ", 1)[-1]
    if rng.random() < 0.15:
        text = expand(rng, "[The {k} and the {fk}|{H} and {f}|The {t} {k}|{H} and the {fk}]", env) + "\n\n" + text
    return text


if __name__ == "__main__":
    seeded = random.Random(1)
    for plot_name in PLOTS:
        print("##", plot_name)
        print(tell(seeded, draw_cast(seeded), plot_name), "\n")
