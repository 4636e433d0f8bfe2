"""The words the stories are made of: who, where, what, when, and how it feels."""

ANIMALS = """fox|rabbit|bear|mouse|owl|turtle|hedgehog|squirrel|cat|dog|puppy|kitten|duck|frog|otter|beaver|badger|deer|wolf|
lion|tiger|elephant|giraffe|monkey|panda|penguin|seal|whale|dolphin|crab|octopus|fish|goose|swan|crow|raven|robin|sparrow|
pigeon|parrot|eagle|hen|rooster|goat|sheep|lamb|cow|pig|horse|pony|donkey|camel|mole|bat|snail|bee|ant|butterfly|ladybird|
spider|lizard|snake|koala|kangaroo|zebra|hippo|rhino|raccoon|moose|reindeer|walrus|polar bear|sea turtle|seagull|pelican|heron|
hare|weasel|lynx|hamster|dragonfly|firefly|cricket|caterpillar|toad|salmon|starfish|crocodile|dinosaur"""
PEOPLE = """boy|girl|fisherman|baker|farmer|sailor|captain|rower|painter|shepherd|gardener|clockmaker|librarian|teacher|doctor|
tailor|carpenter|cook|postman|miller|musician|king|queen|prince|princess|knight|wizard|witch|giant|pirate|lighthouse keeper|
grandmother|grandfather|child|scientist|explorer|pilot|astronaut"""
# What nobody writes stories about, until someone asks for one.
ODD_KINDS = """pencil|teapot|shoe|chair|pumpkin|potato|banana|carrot|cup of tea|snowflake|raindrop|leaf|tree|flower|rose|mountain|river|star|moon|sun|cloud|
wave|stone|button|sock|bicycle|car|bus|train|tractor|boat|ship|submarine|rocket|satellite|lamp|clock|book|pizza|cookie|muffin|pancake|cheese|onion|server|
gateway|scheduler|worker|token|programmer|engineer|mechanic|lawyer|dentist|nurse|firefighter|policeman|soldier|thief|detective|ninja|viking|clown|acrobat|
dancer|singer|poet|student|baby|twin|neighbour|traveller|hermit|monk|magician|gladiator|cowboy|vampire|werewolf|zombie|alien|goblin|dwarf|ogre|phoenix|
griffin|centaur|yeti|golem|angel|sphinx|kraken|sea monster|t-rex|mammoth|flamingo|peacock|ostrich|chicken|turkey|chipmunk|chinchilla|ferret|skunk|porcupine|
sloth|gorilla|chimpanzee|lemur|cheetah|leopard|panther|jaguar|hyena|jackal|coyote|bison|buffalo|llama|alpaca|antelope|gazelle|platypus|wombat|armadillo|
anteater|meerkat|mongoose|manatee|narwhal|orca|shark|stingray|eel|jellyfish|seahorse|lobster|shrimp|clam|tadpole|newt|salamander|gecko|iguana|chameleon|
cobra|worm|moth|wasp|beetle|grasshopper|mosquito|fly|flea|stork|crane|woodpecker|hummingbird|nightingale|magpie|falcon|hawk|vulture|puffin|albatross"""
ODD_TRAITS = "purple|blue|invisible|flying|dancing|talking|giant|two-headed|golden|wooden|sad|angry|hungry|famous|forgetful|musical|magic|old blind|very small|red".split("|")
BEINGS = "robot|dragon|unicorn|ghost|fairy|mermaid|snowman|elf|gnome|troll|little cloud|paper boat|toy train|teddy bear|tin soldier|scarecrow|monster|computer"


def words(text):
    return [word.strip() for word in text.replace("\n", "").split("|")]


SYLLABLES = "ba|bo|chi|da|do|el|fi|ga|gri|ja|ka|ki|kor|la|lo|lu|ma|mi|mo|na|ni|no|ol|pa|pim|qua|ra|ri|ro|sa|shi|so|ta|ti|tu|u|va|vi|wa|xa|ya|yo|za|zi|zor".split("|")
KINDS = words(ANIMALS) * 2 + words(PEOPLE) + words(BEINGS)
SHE_KINDS = set(words("girl|queen|princess|witch|mermaid|grandmother|hen|fairy|cow"))
HE_KINDS = set(words("boy|king|prince|wizard|fisherman|postman|rooster|grandfather|knight|snowman|tin soldier"))

SHE_NAMES = words("""Ada|Anna|Bella|Clara|Daisy|Ella|Emma|Fern|Flora|Grace|Hazel|Ida|Iris|Ivy|Juno|Kate|Lena|Lily|Luna|Lucy|Maya|Mia|Mina|
Mara|Molly|Nell|Nina|Nora|Olive|Pearl|Penny|Poppy|Rosa|Ruby|Sara|Sofia|Stella|Tess|Tilly|Vera|Willow|Zoe|Dora|Greta|Hana|Maple|Coral|Alice""")
HE_NAMES = words("""Abel|Alf|Amos|Arlo|Ben|Bruno|Carl|Dan|Ed|Elio|Emil|Felix|Finn|Fred|Gus|Hugo|Jack|Jonas|Leo|Luca|Max|Milo|Moss|Nico|
Noah|Oak|Odin|Oscar|Otto|Pablo|Paul|Pip|Ravi|Remy|Rolf|Rufus|Sam|Simon|Sven|Theo|Tim|Toby|Tom|Ugo|Walt|Will|Yuri|Bob|Peter|Omar|Ken""")

TRAITS = words("""small|little|young|old|shy|brave|curious|kind|clever|quiet|cheerful|gentle|careful|patient|lazy|proud|clumsy|dreamy|
sleepy|friendly|hopeful|stubborn|merry|lonely|honest|busy|polite|tiny|wise|playful""")

# place: what a story says after "lived ..." and "went to ..."
PLACES = [
    ("near", "the sea", "the waves", "salt"), ("by", "the river", "the water", "wet stones"),
    ("at the edge of", "the forest", "the tall trees", "pine"), ("at the foot of", "the mountain", "the high rocks", "snow"),
    ("in", "a small village", "the narrow streets", "fresh bread"), ("in", "a big city", "the bright windows", "rain"),
    ("on", "an island", "the white sand", "salt"), ("on", "a farm", "the golden fields", "hay"),
    ("in", "a garden", "the flower beds", "roses"), ("in", "the desert", "the sand hills", "warm dust"),
    ("by", "a lake", "the still water", "reeds"), ("in", "a green valley", "the soft grass", "clover"),
    ("in", "a castle", "the long halls", "candle smoke"), ("near", "a lighthouse", "the round steps", "lamp oil"),
    ("by", "the harbour", "the wooden ships", "tar and rope"), ("in", "the jungle", "the thick leaves", "ripe fruit"),
    ("on", "a hill", "the windy path", "heather"), ("in", "the snow", "the white drifts", "frost"),
    ("near", "a windmill", "the turning sails", "flour"), ("in", "an old library", "the high shelves", "old paper"),
    ("in", "the meadow", "the wild flowers", "honey"), ("under", "a bridge", "the grey stones", "moss"),
    ("in", "a cave", "the dark tunnels", "cool earth"), ("by", "a pond", "the round leaves", "mint"),
    ("on", "the moon", "the silver craters", "stardust"), ("in", "space", "the silent stars", "stardust"),
    ("on", "a ship", "the long deck", "tar and salt"), ("in", "a kitchen", "the shining pans", "butter"), ("in", "a supermarket", "the long shelves", "oranges"),
    ("near", "a volcano", "the black rocks", "smoke"), ("in", "a swamp", "the crooked trees", "wet moss"), ("at", "the zoo", "the iron fences", "straw"),
    ("at", "the circus", "the striped tents", "popcorn"), ("at", "the market", "the crowded stalls", "spices"), ("at", "the North Pole", "the blue ice", "frost"),
    ("on", "a pirate island", "the hidden beach", "coconuts"), ("in", "an orchard", "the apple trees", "ripe apples"), ("in", "a tower", "the winding stairs", "old stone"),
    ("on", "a train", "the red seats", "coal smoke"), ("in", "a factory", "the big wheels", "oil"), ("at", "the beach", "the tall dunes", "sun and salt"),
    ("in", "a magic forest", "the whispering trees", "sweet smoke"), ("under", "the sea", "the coral hills", "seaweed"), ("behind", "a waterfall", "the wet rocks", "fresh water"),
    ("in", "an attic", "the dusty boxes", "old wood"), ("in", "a data centre", "the blinking lights", "warm dust"), ("in", "a bakery", "the hot ovens", "fresh bread"),
    ("in", "a kingdom far away", "the golden gates", "incense"), ("on", "Mars", "the red hills", "iron"), ("in", "Paris", "the old bridges", "coffee"), ("in", "Rome", "the broken columns", "pine"),
    ("in", "a hospital", "the white doors", "soap"), ("on", "a bridge", "the stone arch", "rain"), ("at", "the station", "the long platforms", "steam"), ("in", "a school", "the little desks", "chalk"),
    ("in", "the park", "the old benches", "cut grass"), ("in", "a museum", "the glass cases", "old wood"),
]

THINGS = words("""lantern|kite|drum|key|boat|red ball|map|guitar|pencil|treasure chest|magic wand|sword|diamond|suitcase|balloon|flower pot|teapot|bottle|coat|glove|shoe|bicycle|box of colours|chess board|photograph|snow globe|teddy bear|puzzle|rope|hammer|pumpkin|cheese|egg|rose|stone|bell|book|blue scarf|compass|flute|button|basket|clock|hat|ring|shell|spoon|
feather|music box|pot of honey|silver coin|umbrella|letter|paintbrush|whistle|blanket|telescope|wooden horse|necklace|cup|violin|
golden acorn|little mirror|bag of seeds|ball of wool|toy ship|oar|magnet|pebble|jar of jam|cake|apple|candle|crown""")
FOODS = words("soup|warm bread|apple pie|honey cakes|berries|pancakes|nuts|cheese|pears|sweet corn|porridge|plum cake|carrots|tea and toast")
COLOURS = words("red|blue|green|yellow|white|golden|silver|purple|orange|brown|grey|black")
SEASONS = [
    ("spring", "the first flowers opened", "the air was soft"), ("summer", "the sun was high and warm", "the days were long"),
    ("autumn", "the leaves turned red and gold", "the wind smelled of apples"), ("winter", "the snow lay deep", "the nights were cold and clear"),
]
TIMES = words("one morning|one day|one afternoon|one evening|one quiet morning|one sunny day|one windy day|one rainy afternoon|early one morning|one cold day|late one evening|one fine day")
SKILLS = [
    ("swim", "swimming", "across the pond"), ("whistle", "whistling", "a whole song"), ("sing", "singing", "in front of everyone"),
    ("dance", "dancing", "at the spring fair"), ("paint", "painting", "a picture of the sky"), ("row", "rowing", "a boat all the way to the other side"),
    ("climb", "climbing", "to the top of the old tree"), ("juggle", "juggling", "three pears at once"), ("read", "reading", "a whole book"),
    ("bake", "baking", "a round loaf of bread"), ("skate", "skating", "over the frozen lake"), ("play the drum", "drumming", "without missing a beat"),
    ("tell jokes", "telling jokes", "that made even the owl laugh"), ("write", "writing", "a letter to a friend"), ("count", "counting", "all the way to one hundred"),
]
FEARS = [
    ("the dark", "it was dark as ink", "the dark is only the light taking a rest"),
    ("thunder", "the thunder rolled again and again", "thunder is only the sky clapping its hands"),
    ("deep water", "the water was deep and cold", "deep water holds you up if you trust it"),
    ("high places", "the path was high and narrow", "a high place is only a long row of small steps"),
    ("loud noises", "the noise was louder than ever", "a noise cannot bite"),
    ("being alone", "there was no one else for miles", "you are never alone when someone thinks of you"),
    ("the wind", "the wind howled like a wolf", "the wind is only air in a hurry"),
    ("strangers", "everyone there was a stranger", "a stranger is a friend you have not met yet"),
]
MORALS = {
    "help": "[a friend in need is worth more than gold|many small hands can do one big thing|the kindness you give comes back to you|help is never too small to matter|no one has to do hard things alone]",
    "patience": "[good things take time|slow steps still reach the top|those who wait with care are never late|practice makes hard things easy|the one who tries again has not lost]",
    "honesty": "[the truth is lighter to carry than a lie|an honest word mends more than it breaks|it is easier to forgive than to pretend|saying sorry is a brave thing to do]",
    "courage": "[being brave does not mean having no fear|courage grows when you use it|the first step is the hardest one|fear gets smaller when you walk towards it]",
    "share": "[a joy shared is twice as big|there is always enough when you share|things are only things, but a friend is a friend|a present is best when you can share it]",
    "home": "[home is where someone waits for you|every path leads home if a friend walks with you|the best part of a journey is to tell about it|the world is wide, but home is warm]",
}
