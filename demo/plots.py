"""The plots of the demo's stories. A plot is a list of paragraphs of templates (grammar.py); every sentence has several
wordings. Keys: h k t s o p = hero's name, kind, trait, she/her/her; f fk fs fo fp = the friend's; place (a lake), the_place
(the lake), at (by), detail, smell; thing, food, colour, place_b; season, sign, air; time; and what a plot's own table gives."""

OPENINGS = [
    "[Once upon a time|Once upon a time|Long ago|Once|Many years ago][,|] [there was|there lived] a {t} {k} named {h}. {S} lived {at} {place}[, where the air smelled of {smell}|, close to {detail}|].",
    "{H} was a {t} {k} who lived {at} {place}. [Every day {s} walked past {detail}|Everyone there knew {o}|The air there always smelled of {smell}].",
    "{At} {place} lived a {k} called {h}. {H} was [very|quite|rather] {t}[.|, and everyone knew it.|, but {s} had a good heart.]",
    "It was {season}, and {sign}. A {t} {k} named {h} lived {at} {place}[.|, not far from {detail}.]",
    "[Once upon a time|Once], {at} {place}, [there was|there lived] a {k}. [{P} name was {h}, and {s} was {t}.|The {k} was called {h}, and {h} was {t}.]",
    "[In the|Far away, in the] [land of mountains|days of the great ships|kingdom by the water] there lived a {t} {k}, and {p} name was {h}. {P} home was {at} {place}.",
    "[Nobody|No one] {at} {place} was as {t} as {h} the {k}. [Everyone there knew {o}.|Every day {s} could be seen near {detail}.]",
    "The {k} was {t}, and {p} name was {h}. [{S} lived {at} {place}, where {air}.|All {p} life {s} had lived {at} {place}.]",
    "[This is the story of|Listen to the story of|Let me tell you about] {h}, a {t} {k} who lived {at} {place}.",
    "[When|In] {season} [came, |]{sign}[ {at} {the_place}|]. [That was the time that {h} the {k} liked best.|{H} the {k} looked out and smiled.] {S} was {t}[.| and lived {at} {place}.]",
    "There was once a {t} {k}. {P} name was {h}, and {s} lived {at} {place}, [where {sign}|where {air}|where you could smell {smell}].",
]

PLOTS = {
    "lost_thing": ("help", [[
        "{H} had a {thing} that {s} [loved more than anything|took everywhere|had been given by {p} grandmother|kept beside {p} bed].",
        "[But {time}|Then, {time},] the {thing} was gone. [\"Oh no!\" cried {h}. \"Where is my {thing}?\"|{H} looked and looked, but it was not there.|{H} felt [sad|worried|quite lost].]",
    ], [
        "{S} looked under the [bed|table|stairs|old tree]. {S} looked [behind the door|in the grass|near {detail}|on the roof]. [No {thing}.|The {thing} was not there.|Nothing.]",
        "[Just then|Soon|After a while] a {fk} named {f} came by. \"[Why are you so sad|What is the matter|What are you looking for]?\" asked {f}.",
        "\"I have lost my {thing},\" said {h}. \"[Let us look together|Two can look better than one|Do not worry, I will help you|Then we will find it],\" said {f}.",
    ], [
        "[Together|Side by side] they went to {detail}. [{F} looked up high, and {h} looked down low.|They looked in every corner.|{F} had a sharp eye for small things.]",
        "[There it was!|At last they saw it.|\"Look!\" called {f}.] The {thing} was [lying in the grass|stuck in a branch|under a big leaf|behind a round stone|in a little hole]. [The wind must have carried it there.|It was a little dusty, but it was safe.|It had been there all the time.]",
        "\"[Thank you|Thank you so much|You are a true friend], {f}!\" said {h}. [From that day on they were best friends.|They laughed and had {food} together.|{H} held the {thing} tight all the way home.]",
        "[{H} learned that|And {h} never forgot that|That night {h} thought that] {moral}.",
    ]]),
    "lost_way": ("home", [[
        "{Time} {h} went out to [look for berries|see what was behind the hill|follow a {colour} butterfly|pick flowers|explore]. {S} walked and walked past {detail}.",
        "[When {s} looked back|When {s} turned around|Suddenly], [the path was gone|everything looked strange|{s} did not know the way home]. \"[I am lost|Oh dear, I am lost|I want to go home],\" said {h}[ quietly| in a small voice|].",
    ], [
        "{S} sat down and [began to cry|tried to think|listened to the wind]. Then {s} heard [a soft voice|small steps|someone humming a song]. It was a {fk} named {f}.",
        "\"[Are you lost|Why do you sit here alone|Do you need help]?\" asked {f}. {H} nodded. \"I live {at} {place}, but I do not know the way.\"",
        "\"I know the way,\" said {f}. \"[Follow me|Come with me|Hold on to me]. [We must follow the stream|We must walk towards the evening star|We must find the crooked tree first].\"",
    ], [
        "[They walked for a long time|They went over a hill and through tall grass|The way was long, but they sang as they went]. [When it got dark, {f} told stories.|When {h} got tired, they shared {food}.|The moon came out and lit the path.]",
        "[At last|Then, at last,|In the end] {h} could smell {smell}. \"[I am home|That is my home|There it is]!\" {s} called.",
        "[{H} asked {f} to stay for supper, and they had {food}.|{H} gave {f} a {thing} to say thank you.|{H} thanked {f} and promised to visit soon.]",
        "[Before {s} fell asleep, {h} thought:|{H} knew now that|And both of them knew that] {moral}.",
    ]]),
    "fear": ("courage", [[
        "{H} had a secret: {s} was afraid of {fear}. [When the others went out to play, {h} stayed inside.|{S} never told anyone.|The others laughed about it, and that made {h} sad.]",
        "{Time} {p} friend {f}, a {fk}, did not come home. \"[Someone must look for {f}|I must find {f}|{F} may need help],\" said {h}. [Nobody else was there.|The others were far away.|There was no time to wait.]",
    ], [
        "{H} took a {thing} and went out to look for {f}. It was not easy, for {worst}. {P} [knees|paws and knees|hands] shook[.|, but {s} went on.]",
        "\"[One step|Just one step], and then one more,\" {h} told {oself}. [{S} took a deep breath.|{S} thought of {f} and did not turn back.|{S} began to hum a little song.]",
        "Near {detail} {s} heard a voice: \"Help! I am [stuck|caught] [under a branch|between two stones|in the thorns]!\" It was {f}.",
    ], [
        "{H} [pulled and pulled|pushed with all {p} strength|used the {thing} to set {f} free], [and then {f} was free|until {f} could move again]. \"You came!\" said {f}. \"But are you not afraid of {fear}?\"",
        "\"[I was|I still am, a little|Yes],\" said {h}, \"but [you needed me|you are my friend|I wanted to find you].\" [{F} smiled and said: \"You know, {calm}.\"|They went home together, close side by side.]",
        "[From that day on {h} was not so afraid any more.|The next day everyone heard how brave {h} had been.|After that night {fear} did not seem so bad.] {Moral}.",
    ]]),
    "gift": ("share", [[
        "It was almost the birthday of {f} the {fk}, {p} best friend. {H} wanted to give {fo} something special. [\"I will make a {thing},\" said {h}.|\"I know! A {thing},\" {s} said.]",
        "{S} worked on it [for three days|every evening|from morning to night]. [It was {colour} and very fine.|{S} painted it {colour}.|{S} put a {colour} ribbon on it.]",
    ], [
        "[But on the way to the party|But {time}|But just before the birthday] {h} [tripped over a stone|slipped in the mud|ran too fast], and the {thing} broke in two. {H} [began to cry|wanted to go home|did not know what to do].",
        "[\"Now I have nothing to give,\" {s} said.|\"A broken {thing} is no present at all,\" {s} thought.] Still, {s} went to the party[, slowly and with a heavy heart|].",
        "\"[I am sorry|I am so sorry],\" said {h}. \"I made a {thing} for you, but it is broken.\" {F} looked at it and [smiled|laughed softly|gave {h} a hug].",
    ], [
        "\"[Then let us mend it together|We can mend it together|You made it for me, so I love it],\" said {f}. [They took glue and string.|They sat down at the table with glue and paint.] [Soon the {thing} was whole again.|In the end it looked even better than before.]",
        "[After that everyone had {food}.|Then all the guests had {food} and sang.] [It was the best birthday {f} had ever had.|{F} kept the {thing} for the rest of {fp} life.]",
        "[And {h} understood that|{H} learned that day that] {moral}.",
    ]]),
    "winter": ("share", [[
        "[That winter was very cold|It was the coldest winter in years|Winter came early that year]. {H} had put away [just enough|some] {food} for the cold days.",
        "{Time} there was a knock at the door. Outside stood a {fk}, [thin and wet|shaking with cold|covered in snow]. \"My name is {f},\" said the {fk}. \"[I have not eaten for two days|I have nothing to eat|I am so cold and hungry].\"",
    ], [
        "{H} [looked at {p} food|thought of the long winter]. There was not much[.|, not enough for two.] But {s} said: \"[Come in|Come in and sit by the fire]. [What I have is enough for two|We will share what I have].\"",
        "[So they shared|They ate] {food} [and talked until late|and told each other stories|by the warm fire]. {F} stayed until the snow was gone. [Then {fs} said goodbye.|\"I will not forget this,\" {fs} said.]",
    ], [
        "[The next year|When autumn came again|Months later] [a storm|a flood] took everything {h} had. {S} sat there, [sad and hungry|cold and alone]. Then {s} heard a knock.",
        "It was {f} the {fk}, with a [big basket|cart|sack] full of {food} and a {thing}. \"[You shared with me when you had little|Once you helped me],\" said {f}. \"Now [it is my turn|I will share with you].\"",
        "[They sat by the fire as before.|And they were never hungry again.|{H} had tears of joy in {p} eyes.] {Moral}.",
    ]]),
    "skill": ("patience", [[
        "More than anything {h} wanted to {skill} {goal}. [But {s} did not know how.|But {skilling} was hard.|All the others could do it, only {h} could not.]",
        "{Time} {s} tried for the first time. [It went badly|It did not go well|It was a disaster], and [someone laughed|{s} fell on {p} nose|{s} felt silly]. \"[I will never learn to {skill}|I cannot do it],\" said {h}.",
    ], [
        "{F}, a {t_f} {fk}, had seen it all. \"[Nobody can {skill} on the first day|I was bad at {skilling} once, too|Try again tomorrow],\" said {f}. \"[I will show you how|I will help you|We can practise together].\"",
        "So they practised [every morning|every evening|every single day], [in sun and in rain|near {detail}]. The second time was [a little better|not much better]. The third time was better still. [{H} grew tired, but {s} did not give up.|Sometimes {h} wanted to stop, but {f} said: \"Once more!\"]",
    ], [
        "[Then the great day came|At last the day came]. {Season} was here, and {sign}. Everyone stood near {detail} to watch. {H} [took a deep breath|closed {p} eyes for a moment|looked at {f}], and then {s} began to {skill} {goal}.",
        "[And it worked!|{S} did it!|It went perfectly!] [Everyone cheered.|\"Hooray for {h}!\" they called.] {F} [cheered loudest of all|had tears in {fp} eyes|gave {o} a {thing} as a prize].",
        "\"[Thank you|I did it because of you], {f},\" said {h}. {F} smiled: \"{Moral}.\"",
    ]]),
    "new_friend": ("share", [[
        "{H} had [no one to play with|many toys but no friends|a {thing}, but no one to share it with]. [The days were long and quiet.|{S} often sat near {detail} and waited.]",
        "{Time} a {fk} [moved in next door|came to live {at} {the_place}|arrived with a heavy bag]. {P_f} name was {f}. [{H} was too shy to say hello.|{H} hid behind a tree and watched.|\"What if {fs} does not like me?\" thought {h}.]",
    ], [
        "[Then {f} dropped {fp} bag, and everything rolled down the path.|Then the wind took {fp} hat and blew it away.|Then {h} saw that {f} was sitting alone, too.] [{H} ran to help.|{H} could not just stand there, so {s} went to help.]",
        "\"Thank you,\" said {f}. \"[I do not know anyone here|I was afraid that I would find no friends here].\" \"[Now you know me|Now you have found one],\" said {h}[ and smiled|]. \"[Would you like to see my {thing}|Do you want to play|Shall we have some {food}]?\"",
    ], [
        "They played near {detail} until [the sun went down|the stars came out|it was time for supper]. [They took turns with the {thing}.|{F} knew a new game, and {h} knew a song.]",
        "[The next morning {f} was at the door.|The next day they met again, and the day after, too.] [And {h} was never lonely again.|Soon they could not imagine a day without each other.]",
        "[{Moral}.|\"{Moral},\" said {h}, and {f} agreed.]",
    ]]),
    "storm": ("help", [[
        "{Time} dark clouds came up over {the_place}. [A great storm began.|The wind grew stronger and stronger.] The rain fell [all night|for hours], and {h} held {p} {thing} tight.",
        "In the morning [the roof was gone|{p} house had fallen down|half of {p} home was in the mud]. \"[What shall I do now|How can I ever build it again]?\" said {h}.",
    ], [
        "The first to come was {f} the {fk}. \"[I can carry wood|I can hold the ladder|I have a hammer and nails],\" said {f}. Then others came: one brought [boards|rope], one brought [straw|stones], and one brought {food} for everyone.",
        "They worked [from morning to evening|for three days]. {H} [passed the nails|swept the floor|sang so that the work went faster]. [When one was tired, another took over.|Nobody had to be told what to do.]",
    ], [
        "[At last|In the end] the new house stood there, [better than the old one|painted {colour}|strong and dry]. {H} [hung the {thing} over the door|put the {thing} in the window] and said: \"[Thank you, all of you|This is your house, too].\"",
        "[That night|The next time] the wind blew again, but {h} [slept well|was not afraid|only smiled]. {Moral}.",
    ]]),
    "sound": ("courage", [[
        "{Time} {h} could not sleep. There was a strange sound outside: [tap, tap, tap|a long, low cry|a soft scratching|a tiny bell]. \"[What can that be|Who is there]?\" {s} whispered.",
        "{S} woke {p} friend {f}, the {fk}. \"[It is only the wind|Go back to sleep],\" said {f}[ and yawned|]. But there it was again. [Now {f} heard it, too.|Both of them sat up.]",
    ], [
        "They took a {thing} and went out on tiptoe. [The grass was wet and the stars were bright.|It was very dark near {detail}.] The sound came from [behind a bush|an old box|a hole in the ground|the other side of the fence].",
        "\"[You go first|After you],\" said {f}. {H}'s heart beat fast[.|, but {s} was more curious than afraid.] {S} looked, and [laughed|smiled|could not believe {p} eyes].",
    ], [
        "It was a baby {kb}[.|, no bigger than a {thing_b}.] Its foot was caught in [a string|an old net]. [\"Poor little one,\" said {h}.|\"So you made the noise!\" said {f}.] Carefully they set it free.",
        "[They gave it some {food} and took it home to its mother.|The mother {kb} came and thanked them.|The little {kb} fell asleep in {p} arms, and in the morning its mother came.]",
        "\"[I am glad that we went to look|The strange sound was only someone who needed us],\" said {h}. {Moral}.",
    ]]),
    "journey": ("home", [[
        "All {p} life {h} had wanted to see {place_b}. [{S} had heard of it in stories.|A traveller had once told {o} about it.|{S} dreamed of it every night.]",
        "{Time} {s} packed a {thing} and some {food} and set out. [\"Be careful!\" called the neighbours.|\"I will be back,\" {s} promised.]",
    ], [
        "After a day {h} came to a [wide river without a bridge|high wall of rock|deep gorge]. There sat a {fk} named {f}. \"[I want to get across, too|I cannot get over it alone],\" said {f}. [So they helped each other across.|Together they built a little raft.|{H} had an idea: they tied a rope from long grass.]",
        "\"Where are you going?\" asked {f}. \"To {place_b},\" said {h}. \"[Then I will come with you|May I come along|I have never seen it, let us go together].\" [They walked for three days|They walked through rain and sun], and [at night they looked at the stars|in the evening they shared the {food}].",
    ], [
        "[Then, behind the last hill, they saw it|At last they stood before it]: {place_b}! [It was even more beautiful than in the stories.|{H} was so happy that {s} could not speak.] They stayed there [until evening|for seven days].",
        "[Then {h} began to miss {p} home.|\"And now?\" asked {f}. \"Now we go home,\" said {h}.] {S} took [a small stone|a flower|a bit of sand] with {o}. [At home, {at} {place}, everyone wanted to hear the story.|When {s} came home to {the_place}, {f} stayed with {o}.]",
        "{Moral}.",
    ]]),
    "quarrel": ("share", [[
        "{H} and {p} friend {f}, a {fk}, did everything together. {Time} they found a {thing} near {detail}. [It shone in the sun.|It was {colour} and beautiful.]",
        "\"[I saw it first|It is mine]!\" said {h}. \"No, [I saw it first|it is mine]!\" said {f}. They pulled and pulled[, until both fell down|]. [Then {f} went home without a word.|Then each went home alone, and both were angry.]",
    ], [
        "{H} had the {thing} now, but [it was no fun alone|it made {o} feel cold inside|{s} could not enjoy it]. {S} looked at it and thought of {f}. [{F} sat at home and thought of {h}.|\"What is a {thing} without a friend?\" {s} thought.]",
        "[The next morning|In the evening|After two days] {h} took the {thing} and went to {f}. \"[I am sorry|I was wrong],\" {s} said. \"[You can have it|A friend is more than a {thing}].\"",
    ], [
        "\"I am sorry, too,\" said {f}. \"[Let us share it|It can be ours]: [you have it one day, and I the next|we will keep it in the old tree between our houses].\" [They shook hands on it.|{H} liked that idea very much.]",
        "[And so it was.|That is what they did.] They had {food} together, and [the quarrel was forgotten|they laughed about it]. {Moral}.",
    ]]),
    "seed": ("patience", [[
        "{Time} {h} found a small {colour} seed. \"[What will it be|What may grow from it]?\" {s} asked. {F} the {fk} said: \"[Put it in the earth and wait|You will see, if you are patient].\"",
        "So {h} planted it near {detail} and gave it water. {S} sat down and waited. [Nothing happened.|The whole day nothing happened.] \"[It does not work|It must be a bad seed],\" said {h}.",
    ], [
        "The next day {s} [shouted at the seed|sang for the seed|wanted to dig it up]. \"[Wait|Give it time|Leave it in the earth],\" said {f}. \"[You cannot pull a plant to make it grow|It is working in the dark].\"",
        "{H} gave it water every day. [It rained, and the sun came back.|A week went by, and then another.] {S} [learned to be quiet and wait|read a book beside it|told the seed stories].",
    ], [
        "And [then, one morning|one day, when {s} had almost forgotten it], there was a tiny green leaf! [\"{F}! Come quickly!\" called {h}.|{H} danced for joy.] It grew and grew, until it was [a sunflower as tall as a house|a rose bush with {colour} roses|an apple tree|a pumpkin as big as a {kb}].",
        "[In autumn they made {food} and invited everyone.|{H} kept one seed and gave it to {f}.] \"You were right,\" said {h}. \"{Moral}.\"",
    ]]),
    "race": ("help", [[
        "{Time} there was a great race {at} {the_place}. The prize was a {colour} {thing}. {H} had [trained for weeks|practised every day] and wanted to win.",
        "\"[Ready, steady, go|One, two, three, go]!\" called the old {kb}. Everyone ran. {H} was [fast|in front|second, then first]. [{S} could already see the finish.|The wind sang in {p} ears.]",
    ], [
        "Then {s} heard a cry. {F} the {fk} had [fallen|hurt {fp} foot|slipped into a ditch]. The others ran past. {H} looked at the finish, and {s} looked at {f}. [It was not far to the finish.|It was a hard choice.]",
        "{H} [turned around|stopped and went back]. \"[Lean on me|Come, I will help you],\" {s} said. \"But [you will lose|what about the {thing}]!\" said {f}. \"[There will be other races|You are more important],\" said {h}.",
    ], [
        "Slowly the two of them walked to the finish. They were the very last. But [everyone was clapping|all the others cheered for them]. The winner came and [gave {h} the {thing}.|said: \"The prize is yours.\"]",
        "\"[You ran the best race|You won something better],\" said the old {kb}. {H} and {f} [ate {food} and laughed|were friends from that day on]. {Moral}.",
    ]]),
    "truth": ("honesty", [[
        "{F} the {fk} had a {thing} that {fs} loved. \"[Please do not touch it|Be careful with it],\" {fs} always said. {Time}, when {f} was away, {h} touched it all the same. [Crack!|Oh no!] It fell and broke.",
        "{H} was frightened. {S} [hid the pieces under the bed|put the pieces in a box|threw a cloth over it]. When {f} came home, {fs} asked: \"Where is my {thing}?\" \"[I do not know|I have not seen it],\" said {h}.",
    ], [
        "That was not true, and {h} knew it. {S} could not [eat|sleep]. Even {food} did not taste good. [The lie sat in {p} stomach like a stone.|Whenever {f} smiled at {o}, {h} felt worse.]",
        "[The next morning|In the middle of the night] {s} went to {f}. \"I must tell you something,\" {s} said. \"I broke your {thing}, and then I lied. I am so sorry.\"",
    ], [
        "{F} was quiet for a while. Then {fs} said: \"I am sad about the {thing}. But [I am glad that you told me|it was brave to tell me].\" [They mended it together, piece by piece.|{H} worked for a week and made {fo} a new one.]",
        "[{H} felt light again.|That night {h} slept very well.] {Moral}.",
    ]]),
    "star": ("help", [[
        "{Time} {h} saw a star fall from the sky. It landed [softly|with a splash of light] near {detail}. {S} ran there and found it: a small, {colour} star, and it was crying.",
        "\"[I want to go home|I fell, and I cannot get back up],\" said the star. \"[Do not cry|Do not worry],\" said {h}. \"I will take you home.\" But the sky was [very high|so far away].",
    ], [
        "{H} climbed [the tallest tree|the highest roof], but it was not high enough. {S} put the star on a kite, but [there was no wind|the string was too short]. Then {s} asked {f}, a {t_f} {fk}.",
        "{F} thought for a while. \"[The moon lies on the water at night|When the moon rises, it stands right on the hill],\" {fs} said. \"[Let us wait for it|The moon can carry the star home].\" So they waited, and the star sat in {h}'s lap and gave them light. They [shared {food}|told it stories].",
    ], [
        "When the moon came up, [big and round|yellow as butter], {h} held up the star as high as {s} could. The moon [took it gently|reached down and took it]. \"Thank you!\" called the star.",
        "Since then one star shines a little brighter over {the_place} than all the others. [{H} and {f} wave to it every night.|And when {h} looks up, it winks.] {Moral}.",
    ]]),
    "rowers": ("help", [[
        "{H} wanted to cross the water in a long boat with many oars. [\"I am strong,\" {s} said. \"I can row alone.\"|{S} took an oar and pulled with all {p} strength.] But the boat only turned in a circle.",
        "{F} the {fk} [stood on the shore and watched|laughed, but not unkindly]. \"[One oar makes a circle|A long boat needs more than one oar],\" said {f}. \"May I [help|row with you]?\"",
    ], [
        "{F} sat down on the other side. Now there were two oars, but [they hit each other|one was fast and one was slow]. [Splash! Both got wet.|The boat shook and did not move.] Then a {kb} came along and began to beat a {colour} drum: boom, boom, boom.",
        "\"Pull on the drum!\" said the {kb}. {H} and {f} listened. Boom, and they pulled. Boom, and they pulled. [The boat began to glide.|The boat shot forward like an arrow.] [When {h} was tired, {f} pulled for both, and the boat did not stop.|When one had to rest, the others rowed on, and the boat never stopped.]",
    ], [
        "[Before evening they were on the other side.|They came to the other shore just as the sun went down.] They [ate {food} on the beach|lit a fire and shared {food}]. \"[Alone I only made circles|Together we were fast],\" said {h}.",
        "{Moral}.",
    ]]),
    "trade": ("patience", [[
        "{H} wanted a {thing}, but {s} had only [one {colour} button|a round {colour} pebble|a piece of string]. \"[Then I will see what I can trade|Maybe someone needs it],\" {s} said. {Time} {s} went to the market.",
    ], [
        "First {s} met a {kb}, who needed just that. The {kb} gave {o} a {thing_b} for it. [{H} was pleased.|\"Better already,\" said {h}.] Then {s} met a [cook|tailor|sailor] who was looking for a {thing_b}, and who gave {o} a [bag of flour|bolt of cloth|basket of fish] for it.",
        "At the last stall stood {f}, a {fk}, and {fs} had a {thing}! \"I would like [your {thing}|to trade for your {thing}],\" said {h}. {F} looked sad. \"[I would give it to you|Gladly], but my family [is hungry|has nothing to eat],\" said {f}.",
    ], [
        "{H} did not think long. {S} gave {fo} all that {s} had. \"[Keep the {thing}|You need it more],\" said {h}, and {s} [turned to go|was about to go home with nothing].",
        "\"Wait!\" called {f}. {Fs} put the {thing} in {p} hands. \"[You asked for nothing, so take it as a present|For a friend it costs nothing].\" [They had {food} together that evening.|{H} carried it home like a treasure.] {Moral}.",
    ]]),
    "bridge": ("help", [[
        "Between {the_place} and the next village there was a [deep river|wide ditch|dark gorge], and no bridge. {H} had to walk around it every day[, and that took hours|]. \"[Somebody should build a bridge|We need a bridge],\" said {h}.",
        "[Everyone agreed, but nobody began.|\"Somebody should,\" said the others, and did nothing.] {Time} {h} took a {thing_b} and [began alone|laid down the first stone].",
    ], [
        "{F}, a {t_f} {fk}, came by and [asked what {s} was doing|stopped to look]. \"I am building a bridge,\" said {h}. \"[Alone? That will take a hundred years|With only that]!\" said {f}. \"[Then it will take fifty if you help|Every bridge begins with one stone],\" said {h}.",
        "{F} [laughed, and then {fs} took a stone, too|put down {fp} bag and helped]. [The next day a {kb} came with wood.|Then the {kb} came, and then all the others.] In the evening they had {food}, and the bridge grew [from both sides|day by day].",
    ], [
        "After [seven days|three weeks] the bridge was finished. They hung a {colour} {thing} over the middle. [The first to walk across was {h}.|{H} and {f} walked across it side by side.]",
        "\"[Who built this|Whose bridge is this]?\" asked a traveller. \"[All of us|We did],\" said {h}. {Moral}.",
    ]]),
    "stranger": ("courage", [[
        "{Time} a stranger came to {the_place}: a {fk} with a {colour} coat. [Nobody spoke to {fo}.|Everyone closed the door.] \"[We do not know {fo}|Who knows what {fs} wants],\" they whispered.",
        "{H} watched from the window. The {fk} sat down near {detail}, took out a {thing}, and [looked very tired|sighed]. \"[I will just ask|Somebody should say hello],\" thought {h}, and {p} heart beat fast.",
    ], [
        "\"[Good evening|Hello],\" said {h}. \"My name is {h}. [What is yours|Who are you]?\" \"I am {f},\" said the {fk}, [surprised|and smiled for the first time]. \"[You are the first to ask me|Nobody has asked me that for a long time].\"",
        "{F} told {o} of {place_b}, and of {fp} long way. {Fs} showed {o} the {thing}. [It had belonged to {fp} mother.|{Fs} had carried it over seven hills.] {H} brought {food}, and they talked until [the stars came out|it was late].",
    ], [
        "The next day the others saw them [laugh together|play together], and one after another came closer. [Soon {f} sat in the middle and told stories.|Soon everyone knew {fp} name.]",
        "{F} stayed {at} {the_place}. And when a new stranger comes, it is {f} who [says hello first|opens the door]. {Moral}.",
    ]]),
    "echo": ("share", [[
        "{H} had a bad day. [Nothing had gone right.|{S} had slept badly.] {Time} {s} stood near {detail} and shouted: \"{Shout}!\" And from the hills it came back: \"{Shout}!\"",
        "\"[Somebody is rude to me|There is someone over there, and they are angry]!\" said {h}, and shouted even louder. The voice shouted louder, too. [{H} stamped {p} foot.|{H} grew angrier and angrier.]",
    ], [
        "{F} the {fk} had heard it all. \"[Try something friendly|Say something nice, and see],\" said {f}. \"[Why should I|To somebody so rude]?\" asked {h}. But then {s} took a deep breath and called: \"{Greeting}!\"",
        "\"{Greeting}!\" it came back[, soft and clear|]. {H} [laughed in surprise|had to smile]. \"Do you want to be my friend?\" {s} called. \"Be my friend!\" called the hills.",
    ], [
        "\"It was only my own voice,\" said {h}. \"[It is often like that|What you call out comes back to you],\" said {f}. [Then they shared {food}.|They sat down and had {food}.]",
        "Since that day {h} [greets everyone with a smile|carries a {thing} and greets everyone], and most of them [smile back|greet {o}, too]. {Moral}.",
    ]]),
    "painting": ("patience", [[
        "{H} loved to paint. {S} wanted to paint {the_place} just as it was, but the picture never came out right. [The sky was too dark.|The trees looked like spoons.|The colours ran together.]",
        "{Time} {s} threw the brush away. \"[I am no good|I will never paint again],\" {s} said. The brush landed in front of {f} the {fk}.",
    ], [
        "{F} looked at the picture for a long time. \"[I like this corner|I like the {colour} part],\" {fs} said. \"[It looks the way the evening feels|It makes me think of home].\" {H} looked again. [\"Really?\" {s} asked.|{S} had not seen it like that.]",
        "\"[Do not paint what you think it should be|Paint what you feel],\" said {f}. \"And paint it [ten times|again tomorrow].\" So {h} painted [every morning|every day]. {F} brought {food} and sat beside {o}. [The tenth picture was better than the first.|Each picture was a little better.]",
    ], [
        "In {season} they hung all the pictures up near {detail}. Everyone came to see them. [An old {kb} bought one for a {thing}.|An old {kb} stood before one and wept for joy.]",
        "\"Which one do you like best?\" they asked. {H} pointed at the very first. \"[That is where I learned to go on|That one, because {f} liked it],\" {s} said. {Moral}.",
    ]]),
    "lamp": ("help", [[
        "{H} had [an important job|a job to do every night]: {s} lit the lamp that showed the ships the way. [{S} had never missed a night.|{S} was proud of it.]",
        "{Time} {h} became ill. {P} head was hot, and {s} could not get up. \"[Who will light the lamp?|The ships will not find the way!]\" {s} said. Outside it grew dark, and [the wind grew stronger|the fog came in|the clouds hid the moon].",
    ], [
        "{F} the {fk} came by with {food}. \"I have never done it,\" said {f}, \"but [tell me how|I can try].\" {H} told {fo} everything: [fill the oil, trim the wick, and turn the glass|up the steps, open the glass, and light the flame].",
        "{F} climbed up. [The first match went out.|The wind blew out the first flame.] [The second went out, too.|{F} shielded the next one with a {thing}.] Then the lamp burned, bright and warm. [Far out a ship turned and came safely home.|Out on the water a horn sounded three times: thank you.]",
    ], [
        "In the morning {h} felt better. \"[The light never went out|Nobody noticed that I was away],\" {s} said. \"[When one of us falls, another takes over|That is what friends are for],\" said {f}.",
        "[From then on they shared the work.|Since then there are two keepers of the lamp.] {Moral}.",
    ]]),
}

ENDINGS = ["", "", "", "", "The end.", "[And they lived happily ever after.|And that is the end of the story.|And if you listen at night, you can still hear them laugh.|And that was a very good day.]"]
