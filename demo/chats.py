"""Conversations: [(role, text), ...] about stories, Trireme, small talk and what the model does not know.

`python chats.py` prints a few."""

import json
import random

import facts
import stories
import words
from grammar import capital, expand

STORY_ASK = [
    "[Tell me|Tell|Please tell me|Can you tell me|Could you tell me|I want to hear|I would like to hear|I'd like|Write|Write me|Please write|Can you write|Make up|Give me|Invent] a [|||little |short little |nice |new |bedtime |funny ]story{about}[.|.||?|!|, please.| please]",
    "[A story|Story|Another story|A little story|Now a story|And now a story|One story]{about}[.||, please.|!]",
    "[Do you know|Have you got|Do you have] a story{about}?", "[tell me|write|give me] a story{about}",
]
SHORT_ASK = [
    "[Tell me|Please tell me|Write|Can you write|Give me|Can you tell me] a [short|very short|tiny|quick|three sentence] story{about}[.|.||?|!|, please.]",
    "[Tell me|Write] a story{about} in [three|four|a few] sentences[.|]", "[A short story|A very short story]{about}[.||, please.|!]",
]
LONG_ASK = ["[Tell me|Write|Please tell me|Can you tell me|I want] a [long|longer|very long] story{about}[.||!|, please.]", "[A long story|A longer story]{about}[.|, please.]"]
AGAIN = ["[Another one|One more|Again|Tell me another one|Another story|One more story|Tell me another story|More|Another][!|.||, please.|?]", "[Now|And now] [another one|one more|a different one][.|!||, please.]"]


def about(rng, env):
    """(what follows 'a story' in a request, the keys the story must speak of)."""
    a_kind = expand(rng, "[a {k}|a {k}|a {k}|a {t} {k}|{k}]" if rng.random() < 0.9 else "the {k}", env)
    shape = rng.random()
    if shape < 0.10:
        return "", []
    if shape < 0.34:
        return f" about {a_kind}", []
    if shape < 0.52:
        return expand(rng, f" about {a_kind} and [{{the_place}}|{{place}}]", env), []
    if shape < 0.64:
        return expand(rng, f" about {a_kind} [and|with|who has|who finds|and|and] [a {{thing}}|a {{thing}}|the {{thing}}]", env), ["thing"]
    if shape < 0.76:
        return expand(rng, f" about {a_kind} and [a|a|the] {{fk}}", env), []
    if shape < 0.88:
        return expand(rng, f" about {a_kind} [named|called|with the name] {{h}}[||| {{at}} {{place}}| and a {{fk}}| and a {{fk}} named {{f}}]", env), []
    if shape < 0.92:
        return expand(rng, " about [{h} and {f}|{h}|{h} the {k}|{h} the {k} and {f} the {fk}]", env), []
    if shape < 0.96:
        return expand(rng, " [about|with] [a {thing}|the {thing}]", env), ["thing"]
    return expand(rng, " [about|that happens {at}] {place}" if rng.random() < 0.5 else f" about {a_kind} {{at}} {{place}}", env), []


def roughen(rng, text):
    """Users type in many ways: no capitals, no full stop, a polite word more."""
    roll = rng.random()
    if roll < 0.12:
        text = text.lower()
    elif roll < 0.16:
        text = text.rstrip("?.!")
    elif roll < 0.20:
        text = text.lower().rstrip("?.!")
    elif roll < 0.24:
        text = expand(rng, "[Hi!|Hello.|Hey,|Please:|I have a question:|One more question:|Ok.|Thanks!|Hello,]", {}) + " " + text if roll < 0.22 else "Hi, " + text[:1].lower() + text[1:]
    elif roll < 0.26:
        text = text.upper()
    return text.strip()


def story_turns(rng):
    size = rng.random()
    short, long = size < 0.45, size > 0.96
    env = stories.draw_cast(rng)
    phrase, keys = about(rng, env)
    ask = expand(rng, rng.choice(SHORT_ASK if short else LONG_ASK if long else STORY_ASK), dict(env, about=" " + phrase.strip() if phrase else ""))
    if long and not keys:
        answer = stories.tell_long(rng, env)
    elif short and not keys:
        answer = stories.tell_short(rng, env)
    else:
        answer = stories.tell(rng, env, stories.pick_plot(rng, keys))
    return [("user", roughen(rng, ask)), ("assistant", answer)], env


FOLLOW_UPS = [
    ("[What was|What is] the name of the {k}[ in the story|]?", "The {k} was called {h}."), ("[What was|What's] the [{k}'s|{k}s] name?", "The {k} was called {h}."),
    ("[Who was|Who is|Who's] {h}?", "{H} was the {k} in the story."), ("[Who was|Who is] {f}?", "{F} was the {fk} in the story."), ("[Who helped|Who was the friend of|Who was with] {h}?", "It was {f} the {fk}."),
    ("Where did {h} live?", "{H} lived {at} {place}."), ("[What was|Who was] the story about?", "It was about a {k} named {h} and a {fk} named {f}."),
]


def story_chat(rng):
    turns, env = story_turns(rng)
    if rng.random() < 0.2:
        question, answer = rng.choice(FOLLOW_UPS)
        if all("{" + key + "}" not in question + answer or env[key] in turns[1][1] for key in ("h", "f", "k", "fk", "place")):
            turns += [("user", roughen(rng, expand(rng, question, env))), ("assistant", capital(expand(rng, answer, env)))]
    if rng.random() < 0.12:
        again = stories.draw_cast(rng)
        turns += [("user", roughen(rng, expand(rng, rng.choice(AGAIN), {}))), ("assistant", stories.tell(rng, again, stories.pick_plot(rng, [])))]
    return turns


def answer_from(rng, table):
    questions, answers = rng.choice(table)
    return [("user", roughen(rng, capital(expand(rng, rng.choice(questions), {})))), ("assistant", expand(rng, rng.choice(answers), {}))]


def fact_turns(rng):
    if rng.random() < 0.55:
        name, answers = rng.choice(facts.DEFINITIONS[:2] * 6 + facts.DEFINITIONS[:12] + facts.DEFINITIONS)
        name = expand(rng, name, {})
        question = expand(rng, rng.choice(facts.WHAT_IS), {"x": name})
        return [("user", roughen(rng, capital(question))), ("assistant", rng.choice(answers))]
    return answer_from(rng, facts.TOPICS)


def odd_stuff(rng):
    """A thing that the model knows nothing about, often one that it has never seen."""
    if rng.random() < 0.6:
        return rng.choice(facts.STUFF)
    word = rng.choice(facts.WORDS) if rng.random() < 0.7 else stories.made_up_name(rng)
    return expand(rng, "[{w}|the {w}|a {w}|{w}s|the {w} of {v}|{w} and {v}|my {w}|the {v} {w}|a {v} and a {w}]", {"w": word, "v": rng.choice(facts.WORDS)})


def unknown_turns(rng):
    env = {"country": rng.choice(facts.COUNTRIES), "person": rng.choice(facts.PERSONS), "stuff": odd_stuff(rng), "n": str(rng.randrange(1, 10 ** rng.randrange(1, 4))), "m": str(rng.randrange(1, 100))}
    return [("user", roughen(rng, expand(rng, rng.choice(facts.UNKNOWN), env))), ("assistant", rng.choice(facts.DONT_KNOW))]


def echo_turns(rng):
    """Copying, counting and small JSON: what a test of a server likes to ask for."""
    env = stories.draw_cast(rng)
    shape = rng.random()
    if shape < 0.4:
        said = expand(rng, "[{h}|{h} the {k}|{thing}|{food}|Hello, {h}!|the {colour} {thing}|{h} lives {at} {place}.|{k}, {fk}, {kb}|I like {food}.|{t} {k}]", env)
        return [("user", expand(rng, "[Say|Repeat|Say|Repeat after me|Please say|Echo]", {}) + rng.choice([": ", ": ", " "]) + said), ("assistant", said)]
    if shape < 0.6:
        top = rng.randrange(2, 21)
        return [("user", roughen(rng, expand(rng, f"[Count to|Count from 1 to|Please count to|Can you count to] {top}[.|!|]", {}))), ("assistant", ", ".join(map(str, range(1, top + 1))) + ".")]
    if shape < 0.75:
        what = rng.choice([("animals", words.words(words.ANIMALS)), ("colours", words.COLOURS), ("names", words.SHE_NAMES + words.HE_NAMES), ("things to eat", words.FOODS)])
        count, word = rng.choice([(2, "two"), (3, "three"), (4, "four"), (5, "five")])
        return [("user", roughen(rng, expand(rng, f"[Name|Tell me|List|Give me] {word} {what[0]}[.|]", {}))), ("assistant", capital(", ".join(rng.sample(what[1], count))) + ".")]
    card = {"name": env["h"], "kind": env["k"], "home": env["place"]}
    ask = expand(rng, "[Describe|Give me|Write] [{h} the {k}|a {k} named {h}] who lives {at} {place} as JSON[.|]", env)
    return [("user", ask), ("assistant", json.dumps(card))]


READING = [
    ("{H} is a {k}. {S} lives {at} {place}. Where does {h} live?", "{H} lives {at} {place}."), ("{H} is a {k} and {f} is a {fk}. What is {f}?", "{F} is a {fk}."),
    ("{H} is a {k} and {f} is a {fk}. Who is the {k}?", "The {k} is {h}."), ("{H} has a {thing}. {F} has a {thing_b}. What does {h} have?", "{H} has a {thing}."),
    ("{H} has a {thing}. {F} has a {thing_b}. Who has the {thing_b}?", "{F} has the {thing_b}."), ("My name is {h}. What is my name?", "Your name is {h}."), ("[My name is {h}|I am {h}|I'm {h}|Hello, I am {h}|Hi, my name is {h}][.|!]", "Hello, {h}! [How can I help you|Would you like to hear a story]?"),
    ("The {thing} of {h} is {colour}. What colour is the {thing}?", "It is {colour}."), ("[What is|What's] a {kb}?", "A {kb} is an animal. I could tell you a story about one!"), ("[Do you know|Do you like|Have you seen] [a {kb}|the {kb}]?", "I know a {kb} only from stories. Shall I tell you one?"),
]
CONTINUE = ["[Continue|Continue this story|Go on|Finish this story|Complete]: {start}", "[How does this story go on|What happens next]? {start}"]


def reading_turns(rng):
    """A question about a sentence that the user gives, or a story begun by the user."""
    env = stories.draw_cast(rng)
    if rng.random() < 0.25:
        story = stories.tell(rng, env, stories.pick_plot(rng, []))
        start, rest = story.split(". ", 1)
        return [("user", expand(rng, rng.choice(CONTINUE), {"start": start + "."})), ("assistant", rest)]
    question, answer = rng.choice(READING)
    return [("user", expand(rng, question, env)), ("assistant", expand(rng, answer, env))]


def talk_turns(rng):
    return answer_from(rng, rng.choice([facts.GREETINGS, facts.ABOUT_ME]))


MIX = [(story_chat, 34), (fact_turns, 29), (talk_turns, 11), (unknown_turns, 8), (echo_turns, 11), (reading_turns, 7)]


def chat(rng):
    """One conversation: a system message in four of ten, one to six exchanges, now and then up to fourteen."""
    makers, weights = zip(*MIX)
    turns, most, stop = ([], 28, 0.1) if rng.random() < 0.04 else ([], 10, 0.62)
    while True:
        turns += rng.choices(makers, weights)[0](rng)
        if rng.random() < stop or len(turns) >= most:
            break
    if rng.random() < 0.4:
        turns.insert(0, ("system", rng.choice(facts.SYSTEMS)))
    return turns


if __name__ == "__main__":
    seeded = random.Random(2)
    for _ in range(25):
        for role, text in chat(seeded):
            print(f"{role:>9}: {text}")
        print()
