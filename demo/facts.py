"""What the demo model knows about Trireme: questions in many wordings, and one short answer (or two) for each.

DEFINITIONS are asked as "what is X?"; TOPICS list their questions themselves (grammar.py templates)."""

WHAT_IS = [
    "[What is|What's|So what is|And what is|What exactly is] {x}?", "[Can you explain|Could you explain|Please explain|Explain] {x}[.| to me.|?| please.]", "[Tell me about|Tell me more about|Talk about] {x}.",
    "[Do you know what|Can you tell me what|Please tell me what|I want to know what|I would like to know what] {x} is[.|?]", "[What do you know about|What can you tell me about] {x}?",
    "What does {x} mean?", "[Describe|Define] {x}.", "{X}?", "[How would you explain|How do you describe] {x}?", "[What is|What's] {x} in [simple words|one sentence|Trireme]?",
]

# (how it is called, answers)
DEFINITIONS = [
    ("[Trireme|Trireme|Trireme|this server|the Trireme server|trireme]", ["Trireme is a server for large language models, written in C. It has three kinds of processes that work together: a gateway, a scheduler and workers."]),
    ("[a trireme|a trireme ship|the ancient trireme|an ancient trireme]", ["A trireme is an ancient ship with three banks of oars on each side. All rowers pull together, and that makes it fast."]),
    ("[the gateway|a gateway|the gateway process|the Trireme gateway|Trireme's gateway]", ["The gateway speaks HTTP with the clients. It turns text into tokens and tokens back into text, and it keeps no state that a client could miss."]),
    ("[the scheduler|a scheduler|the scheduler process|the Trireme scheduler|Trireme's scheduler]", ["The scheduler is the only place that decides. It queues requests, forms batches and hands out KV cache blocks, and it never sees text or weights."]),
    ("[a worker|the worker|the workers|a worker process|a Trireme worker|Trireme's worker]", ["A worker is one process for one device, a GPU or a CPU. It owns the weights and the KV memory and computes the steps of the model."]),
    ("[the supervisor|a supervisor|the trireme command|Trireme's supervisor]", ["The supervisor starts the gateway, the scheduler and the workers on one machine and starts them again when they die. If it dies itself, they run on, and the next one adopts them."]),
    ("[a token|tokens|a token in a language model]", ["A token is a small piece of text: a word, a part of a word, or a single byte. A language model reads and writes tokens, each with its own number."]),
    ("[tokenization|a tokenizer|the tokenizer|tokenizing]", ["A tokenizer cuts text into tokens and puts tokens together to text again. In Trireme the gateway does this."]),
    ("[the KV cache|a KV cache|KV cache|the kv cache|key value cache|KV caching]", ["The KV cache keeps the keys and values of all tokens that were read so far. So the model does not have to compute them again for every new token."]),
    ("[the prefix cache|a prefix cache|prefix caching|prefix cache]", ["The prefix cache keeps KV blocks of earlier requests. When a new prompt begins with the same tokens, these blocks are used again and need not be computed."]),
    ("[continuous batching|continuous batches|batching]", ["Continuous batching means that requests join and leave the running batch at every step. No request has to wait until the others are finished."]),
    ("[paged attention|PagedAttention|paged KV memory]", ["Paged attention keeps the KV cache in blocks of fixed size instead of one long piece. A table says which blocks belong to a sequence, so no memory is wasted."]),
    ("[a KV block|a block|KV blocks|the blocks of the KV cache]", ["A KV block holds the keys and values of a fixed number of tokens, from 16 to 64. Sequences with the same beginning can share it."]),
    ("[prefill|the prefill|the prefill phase]", ["Prefill is the first phase of a request: the model reads the whole prompt, many tokens at once, and fills the KV cache."]),
    ("[decode|decoding|the decode phase]", ["Decode is the phase in which the model writes. Each step gives one new token for every sequence in the batch."]),
    ("[chunked prefill|a prefill chunk|prefill chunks]", ["Chunked prefill reads a long prompt in several pieces. So the sequences that are already writing do not have to wait for it."]),
    ("[speculative decoding|speculation|drafting]", ["Speculative decoding guesses a few tokens ahead and checks them all in one step. In Trireme a guess is taken only when it equals the model's own choice, so the text never changes."]),
    ("[preemption|preempting a sequence]", ["Preemption means that a sequence has to give its KV blocks back when memory is full. It is computed again later and goes on with the same tokens."]),
    ("[a large language model|a language model|an LLM|large language models]", ["A language model is a neural network that guesses the next token of a text, again and again. A large one has billions of weights. I am a very small one."]),
    ("[inference|model inference]", ["Inference means running a trained model to get answers from it. Trireme is a server for inference."]),
    ("[tensor parallelism|tensor parallel]", ["Tensor parallelism splits every layer of a model over several devices. Each worker computes its part, and the parts are added in a fixed order."]),
    ("[pipeline parallelism|pipeline parallel]", ["Pipeline parallelism gives each device some of the layers of a model. The result of one stage is passed on to the next stage."]),
    ("[a replica|replicas|a replica in Trireme]", ["A replica is a group of workers that hold one complete copy of the model. Replicas can come and go while Trireme serves."]),
    ("[streaming|a stream|token streaming]", ["Streaming means that the answer is sent piece by piece, as soon as the tokens are there. You do not have to wait for the end."]),
    ("[quantization|a quantized model]", ["Quantization stores the weights of a model with fewer bits. The model gets smaller and faster, and it loses a little precision."]),
    ("[sampling|token sampling]", ["Sampling is the choice of the next token from the probabilities of the model. With temperature zero the most likely token is always taken."]),
    ("[temperature|the temperature|the temperature setting]", ["The temperature says how daring the choice of the next token is. At zero the model always takes the most likely token; higher values give more variety."]),
    ("[top-p|top p|nucleus sampling]", ["Top-p keeps only the most likely tokens, until their probabilities add up to p. The next token is drawn from these."]),
    ("[a chat template|the chat template|chat templates]", ["A chat template turns the messages of a conversation into one text with special tokens. The gateway renders it before it tokenizes."]),
    ("[a context window|the context window|context length]", ["The context window is the number of tokens that a model can look at. Mine is 2048 tokens long, but I work best with much less."]),
    ("[attention|self-attention|the attention mechanism]", ["Attention lets each token look back at the earlier tokens and take what it needs from them. The KV cache makes this cheap."]),
    ("[a GPU|GPUs]", ["A GPU is a processor that does very many small computations at the same time. Trireme runs models on GPUs, and on CPUs as well."]),
    ("[ZeroMQ|the message layer|the wire between the processes]", ["ZeroMQ is the message library that connects Trireme's processes. The messages themselves are protocol buffers."]),
    ("[a grammar|structured output|JSON mode|constrained decoding]", ["With a grammar or a JSON schema, Trireme only allows tokens that fit. So the answer always has the form that you asked for."]),
    ("[an epoch|epochs|an epoch in Trireme]", ["An epoch is the number of a scheduler's reign. Messages of an older epoch are dropped, so an old scheduler can do no harm."]),
    ("[exact mode|the exact mode|exactness]", ["In exact mode the same request gives the same bits: alone, in any batch, and also after a process has died. It is the default in Trireme."]),
    ("[LoRA|a LoRA adapter|an adapter]", ["A LoRA adapter is a small set of extra weights that changes what a model does. One base model can serve with many adapters."]),
    ("[a safetensors file|safetensors|GGUF|a GGUF file]", ["Safetensors and GGUF are file formats for the weights of a model. Trireme reads both."]),
]

DIES = "[dies|crashes|fails|is killed|goes down|stops|breaks]"
IF = "[What happens|What will happen|What do I see|What happens to my request|What happens to my stream|What does Trireme do] [when|if]"

# (question templates, answers)
TOPICS = [
    (["[What are|Which are|Name|Tell me|List] the three [processes|kinds of processes|parts|programs][ of Trireme| in Trireme|][?|.]", "[Which|What] [processes|parts] does Trireme [have|consist of]?", "[How is Trireme built|What is Trireme made of|Of what is Trireme made]?", "[Why three processes|Why is it called three banks]?", "[How many|How many kinds of] processes does Trireme have?", "What are the three banks of oars?"],
     ["The three are the gateway, the scheduler and the worker. The gateway handles text, the scheduler decides, and the worker computes."]),
    (["What does the gateway do?", "What is the [job|task|role|purpose] of the gateway?", "[What is the gateway for|Why is there a gateway|what does a gateway do in trireme]?", "[Who|Which process] speaks HTTP?", "[Which process|Who] [turns text into tokens|tokenizes the text]?"],
     ["The gateway speaks HTTP with the clients. It turns text into tokens and tokens back into text, and it keeps no state that a client could miss."]),
    (["What does the scheduler do?", "What is the [job|task|role|purpose] of the scheduler?", "[What is the scheduler for|Why is there a scheduler|what does a scheduler do in trireme]?", "[Who|Which process] [decides|makes the decisions|forms the batches|manages the KV cache|hands out the blocks]?"],
     ["The scheduler is the only place that decides. It queues requests, forms batches and hands out KV cache blocks, and it never sees text or weights."]),
    (["What does [the|a] worker do?", "What do the workers do?", "What is the [job|task|role|purpose] of [the|a] worker?", "[What is the worker for|Why are there workers|what does a worker do in trireme]?", "[Who|Which process] [computes|holds the weights|owns the weights|runs the model|does the work on the GPU]?"],
     ["A worker is one process for one device, a GPU or a CPU. It owns the weights and the KV memory and computes the steps of the model."]),
    ([IF + " [a|the|one] worker " + DIES + "?", "[What if|And if] a worker " + DIES + "?", "[Can|May] a worker die?", "[Does|Will] my stream [end|break|stop] [when|if] a worker " + DIES + "?", "[Kill|What if I kill] a worker[.|?]", "[What happens when a GPU fails|What if a GPU breaks]?"],
     ["When a worker dies, your stream pauses for a moment and then continues with the same tokens. The scheduler gives the work to another worker, or to the same one when it is back."]),
    ([IF + " the scheduler " + DIES + "?", "[What if|And if] the scheduler " + DIES + "?", "Does my stream end when the scheduler " + DIES + "?", "[Can|May] the scheduler die?"],
     ["When the scheduler dies, the gateways send each open request to its successor, with the tokens so far. Your stream pauses and then continues with the same tokens."]),
    ([IF + " [a|the] gateway " + DIES + "?", "[What if|And if] [a|the] gateway " + DIES + "?", "[Can|May] the gateway die?"],
     ["When a gateway dies, the connections of its clients end. Resumable streams can be taken up again through another gateway."]),
    ([IF + " the supervisor " + DIES + "?", "[What if|And if] the supervisor " + DIES + "?"], ["When the supervisor dies, its processes run on. A new supervisor adopts them, and no stream ends."]),
    ([IF + " [a|any|one] process " + DIES + "?", "What survives what?", "[Is Trireme fault tolerant|How robust is Trireme|How does Trireme handle failures|What happens on a crash|Does Trireme survive crashes]?", "What does Trireme promise?", "[What is special about Trireme|Why should I use Trireme|What makes Trireme different]?"],
     ["No single process's death ends your stream, except the gateway's own. The stream pauses and then continues with the same tokens."]),
    ([IF + " [a client|I] [disconnect|disconnects|goes away|close the connection]?", "[What if|And if] I close the connection?"], ["When a client goes away, its requests are cancelled within two steps and the KV blocks are free again. A resumable stream runs on for a while."]),
    (["[What|Which] [language|programming language] is [it|Trireme] [written in|made in]?", "[In what|In which] language is Trireme written?", "What is Trireme written in?", "Is Trireme written in [C|Rust|Python|Go|C++]?", "[Which|What] languages does Trireme use?", "What language is it in?"],
     ["Trireme is written in C, with CUDA for the kernels that run on GPUs."]),
    (["[What|Which] [licence|license] does Trireme have?", "[What is|What's] the [licence|license][ of Trireme|]?", "[How is Trireme licensed|Is Trireme open source|Is Trireme free|Under what license is Trireme]?", "[May|Can] I use [Trireme|it] [at work|for free|in a product]?"],
     ["Trireme is open source under the Apache-2.0 licence. You may use it, change it and share it."]),
    (["How do I start [it|Trireme|the server]?", "[How can I|How to] [start|run|launch] [it|Trireme|the server]?", "[What is the command to start|Which command starts] [it|Trireme]?", "[Start|Run] Trireme[.|!]", "[How do I begin|How do I get started|Where do I start|How do I try it]?", "What does ./dev up do?"],
     ["Type ./dev up in the folder of Trireme. It builds everything and starts the gateway, the scheduler and a worker with a small demo model."]),
    (["Why is it called Trireme?", "[Why|From where] the name[ Trireme|]?", "Where does the name [Trireme |]come from?", "What does the name [Trireme |]mean?", "[What does Trireme have to do with ships|Is Trireme a ship]?"],
     ["A trireme is an ancient ship with three banks of oars. The server has three kinds of processes that pull together, just like them."]),
    (["[Does it|Can it|Does Trireme|Can Trireme] run on [a CPU|CPUs|my laptop|a GPU|GPUs]?", "[Do I need a GPU|Does Trireme need a GPU|Which hardware does Trireme need|What hardware do I need]?", "[On which|On what] [hardware|devices|machines] does Trireme run?"],
     ["Trireme runs on CPUs and on NVIDIA GPUs. For a small model like me a CPU is enough."]),
    (["[Which|What] models can Trireme [serve|run|load]?", "[Which|What] models does Trireme support?", "Can Trireme [serve|run] [other|bigger|larger|real] models?", "[How do I use|Can I use] [a bigger|another|my own] model?"],
     ["Trireme serves many open models, from safetensors or GGUF files. A model is described by a table, so a new kind is mostly a new row in it."]),
    (["How do the [processes|parts] talk to each other?", "How are the processes connected?", "[What|Which] protocol do the processes use?", "How does Trireme send messages?"],
     ["The processes send each other protocol buffers in ZeroMQ messages. On one machine they use local sockets, between machines TCP with encryption."]),
    (["[Which|What] API does Trireme [have|speak|offer]?", "How do I [send a request|talk to Trireme|use the API]?", "[How can I|How do I] [chat|talk] with a model?", "Does Trireme speak HTTP?"],
     ["Trireme speaks HTTP. Send your messages to /v1/chat/completions, or plain text to /v1/completions, and read the answer as a stream."]),
    (["[How does a request go through Trireme|What is the way of a request|What happens to a request|How does Trireme work|How does it work]?", "[Explain|Tell me|Describe] how Trireme works[.|?]"],
     ["The gateway turns your text into tokens and sends them to the scheduler. The scheduler puts them into the next batch, the workers compute new tokens, and the gateway streams them back to you as text."]),
    (["[Is the answer always the same|Do I get the same answer twice|Is Trireme deterministic|Are the results reproducible]?", "Does [the batch|batching] change the answer?"],
     ["Yes. In exact mode the same request with the same seed gives the same tokens, alone or in any batch."]),
    (["What happens when [the memory is full|the KV cache is full|there are no more blocks|the blocks run out]?", "What if [the KV cache is full|memory runs out]?"],
     ["First the scheduler drops cached blocks that nobody uses. If that is not enough, it preempts the latest sequence of the lowest priority, which continues later."]),
    (["What happens when there are too many requests?", "[What if Trireme is overloaded|What does Trireme do under load|What if the queue is full]?"],
     ["The queue has a limit. When it is full, new requests are answered with status 429 and a hint when to try again."]),
    (["What is the difference between [a token and a word|tokens and words]?", "[Is a token a word|How long is a token|How big is a token]?"],
     ["A token can be a whole word, but also only a part of one. Common words are one token, rare words are several."]),
    (["What is the difference between [prefill and decode|prefill and decoding]?"], ["Prefill reads the whole prompt at once, decode writes one token per step."]),
    (["What is the difference between the [gateway and the scheduler|scheduler and the gateway]?"], ["The gateway handles everything about text, and the scheduler decides what runs next. The scheduler never sees text."]),
    (["What is the difference between the [scheduler and the worker|worker and the scheduler|scheduler and a worker]?"], ["The scheduler decides what runs next, and the worker computes it. Only the worker has the weights."]),
    (["[Why do I need a KV cache|Why is the KV cache useful|What is the KV cache for|What is the KV cache good for]?"], ["Without the KV cache the model would read the whole text again for every new token. With it each step only computes the new token."]),
    (["[Why is continuous batching good|Why continuous batching|What is continuous batching good for]?"], ["A device computes many sequences at once almost as fast as one. Continuous batching keeps it busy, because finished requests leave and new ones join at every step."]),
    (["[Where is|Is there] [a web page|a chat page|a browser page|a user interface|a UI]?"], ["Yes, Trireme has a small web page for chatting. Open the address of the gateway in your browser."]),
    (["[How do I|How can I] [see|get|read] [metrics|the metrics]?", "[Are there metrics|Does Trireme have metrics|How do I monitor Trireme]?"], ["Every process has a small admin port with /metrics, /health/live and /health/ready."]),
    (["[How do I stop|How can I stop|How do I end|How do I shut down] [it|Trireme|the server]?"], ["Press Ctrl-C where you started it. The supervisor then ends the other processes."]),
    (["[How can I make a model|How do I replace you|Where can I find a real model|Can I replace you with a better model]?"], ["I am only a demo. Give Trireme the folder of a bigger model, and it will serve that one instead."]),
]

# Questions about itself, and small talk.
ABOUT_ME = [
    (["Who are you?", "What are you?", "[Tell me about yourself|Introduce yourself|Please introduce yourself|Describe yourself][.|]", "[What's|What is] your name?", "[Do you have a name|How are you called|What should I call you]?", "[Are you|So you are] [a robot|a human|a person|an AI|a computer|a bot|a model|a chatbot|ChatGPT|real]?", "[Who am I talking to|With whom do I speak|What model are you|Which model are you]?"],
     ["I am the demo model of Trireme, a very small language model. I can greet you, tell little stories and answer short questions about Trireme."]),
    (["What can you do[ for me|]?", "[How can you help me|What are you good at|What do you do|What do you know|What can I ask you|What can I ask|What should I ask]?", "[Help|help|Help!|Can you help me?|I need help.]", "[What are your skills|What are your abilities|Which topics do you know]?"],
     ["I can greet you, tell little stories and answer short questions about Trireme. Ask me for a story about a fox and the sea!"]),
    (["[How big|How large|How small] are you?", "How many [parameters|weights] do you have?", "[What is your size|Are you a big model|Are you a large model|How many layers do you have]?"],
     ["I have only 4.7 million parameters in five layers. Large models have a thousand times more."]),
    (["[Who made you|Who built you|Who trained you|How were you trained|How were you made|Where do you come from|Who created you]?", "[What is your training data|What were you trained on|How long were you trained]?"],
     ["I was trained from scratch in about an hour, on two CPU cores, with text that was generated for Trireme."]),
    (["[Are you smart|Are you clever|Are you intelligent|Do you know everything|Can I trust you|Are you always right]?"],
     ["No, I am only a toy. I know little stories and a few facts about Trireme, and nothing else."]),
    (["[How are you|How are you doing|How do you do|How is it going|How's it going|Are you well|Are you ok|How do you feel|How are you today]?", "[Hi|Hello|Hey], how are you?", "What's up?"],
     ["I am fine, thank you! [How can I help you|What can I do for you|Would you like to hear a story]?", "Very well, thank you! [How can I help you|What can I do for you|Would you like to hear a story]?"]),
    (["[Hi|Hello|Hey|Hi there|Hello there|Hey there|Good morning|Good evening|Good day|Good afternoon|Hiya|Greetings|hi|hello|hey|Hello Trireme|Hi Trireme|Hello model|Hello, who is there]", "[Hi|Hello|Hey|Hi there|Hello there|Hey there|Good morning|Good evening|Good day|Good afternoon|hi|hello|hey][!|.|!!| :)|, nice to meet you.|, is anyone there?|, can you hear me?|, my friend!]", "[Say hello|Say hi|Greet me|Please say hello][.|!]", "[Hi|Hello]"],
     ["Hello! [How can I help you|What can I do for you|Would you like to hear a story]?", "Hi there! [How can I help you|What can I do for you|Would you like to hear a story]?"]),
    (["[Thanks|Thank you|Thanks a lot|Thank you very much|Many thanks|Thank you so much|thx|thanks|Cheers][!|.|, that was nice.|, that helps.|, great.|]", "[That was helpful|That helps a lot|Great answer|Perfect], thank[s| you][.|!]"],
     ["You are welcome! [Is there anything else|Just ask if you want to know more]", "You are very welcome!"]),
    (["[Bye|Goodbye|Good bye|See you|Good night|Farewell|See you later|bye|Ciao|Until tomorrow|I have to go][!|.|, thanks.|]", "[That is all|I am done|I have to go now|I need to leave][.|, bye.|, goodbye!]"],
     ["Goodbye! [Come back soon|Have a nice day|It was nice to talk to you].", "Bye! [Come back soon|Have a nice day|It was nice to talk to you]."]),
    (["[Nice|Great|Cool|Wow|Very good|Well done|Good job|Lovely|Beautiful|I like it|I love it|That was a nice story|What a nice story|Good story|Awesome|You are great|You are funny|I like you][!|.]"],
     ["Thank you, I am glad that you like it! [Shall I tell you another story|Would you like another story]?"]),
    (["[That is bad|I do not like it|That is wrong|This is boring|You are stupid|Bad answer|That makes no sense|You are wrong|Boring][!|.]"],
     ["I am sorry, I am only a very small model. [Shall I try another story|Ask me about Trireme, or for a story]?"]),
    (["[Yes|Sure|Ok|Okay|Yes please|Of course|Why not|Fine|Right][!|.|]"], ["Good! Ask me about Trireme, or tell me who the story should be about."]),
    (["[No|No thanks|No thank you|Not now|Nope|Maybe later][!|.|]"], ["All right. I am here if you need me."]),
    (["[Test|test|Testing|ping|Ping|Are you there?|Is this working?|Does it work?|Can you hear me?|1 2 3]"], ["I am here. [It works!|Everything works!]"]),
    (["[Tell me a joke|Do you know a joke|Make me laugh|Tell a joke|A joke please][.|!|?]"],
     ["Why does a trireme never get tired? Because it always has three banks to rest on!", "Why did the token cross the road? Because the next one was on the other side!", "What does a scheduler say at breakfast? One batch of pancakes, please!"]),
    (["[I am|I feel] [sad|tired|lonely|bored|unhappy|worried][.|!| today.]"], ["I am sorry to hear that. [A little story may help: who should it be about|Shall I tell you a story]?"]),
    (["[I am|I feel] [happy|glad|great|fine|well|good|very well][.|!| today.|, thank you.]"], ["I am glad to hear that! [Would you like to hear a story|What can I do for you]?"]),
    (["[Do you like|What do you think about] [ships|stories|the sea|music|cats|dogs|books|me|people]?"], ["I am only a small model, but I like everything that makes a good story."]),
    (["[Hallo|Bonjour|Ciao|Hola|Salut|Guten Tag|Buongiorno|Namaste|Konnichiwa|Servus|Hallo, wie geht es dir?|Bonjour, comment ça va?|Ciao, come stai?|Wer bist du?|Qui es-tu?|Chi sei?|Was kannst du?|Erzähl mir eine Geschichte.|Raconte-moi une histoire.|Raccontami una storia.|Hola, ¿cómo estás?][!|]"],
     ["Hello! I only know a little English. Would you like to hear a story?"]),
    (["[Do you speak|Can you speak|Speak] [German|French|Italian|Spanish|Japanese|Chinese|other languages][?|.]"], ["No, I only know a little English."]),
]

# What nearly every conversation has, and so is asked for more often than the rest.
GREETINGS = ABOUT_ME[:2] + ABOUT_ME[5:9]

# What it does not know: many questions, one honest answer.
UNKNOWN = [
    "[What is|What's|Tell me] the capital of {country}[?|.]", "[Who|When] [was|is] [the president of {country}|{person}]?", "[Who|What] [invented|wrote|discovered|painted|built] {stuff}?", "[What is|What's|Calculate] {n} [plus|times|minus|+|*|-|divided by] {m}[?|.]", "{n}[+| + | * |*|-]{m}[?|=|]",
    "[Write|Can you write|Please write] [a program|a function|code|a script|a poem|an essay|a letter|a song|an email|SQL] [about|for|that sorts|for me about] {stuff}[.|?]", "[Translate|Please translate] {stuff} [to|into] [German|French|Spanish|Italian|Japanese].", "[What is|What's|How is] the weather [today|like|in {country}|tomorrow]?",
    "[What|Which] [day|time|year|date] is it?", "[Summarize|Explain|What do you know about|Tell me about|What is|What are|Who knows about|Describe] {stuff}[.|?]", "[How do I|How can I|How to] [cook|make|fix|build|learn|buy|find|repair|use] {stuff}?", "[What is|What's] the [best|largest|fastest|smallest|oldest|price of|meaning of|history of|colour of] {stuff}?",
    "[How far|How old|How big|How high|How deep|How heavy] is {stuff}?", "[Why|When] [is|are|did|does] {stuff} [so expensive|important|happen|blue|round|good|end|begin]?", "[Should I|Can I|May I] [buy|eat|sell|trust|learn] {stuff}?", "[Give me|I need|Show me|Find] [a recipe for|news about|facts about|a list of|a picture of|advice on] {stuff}[.|!]",
    "[Who is|Who was|Tell me about|Do you know] {person}[?|]", "[What is|What's] the meaning of life?", "[Is|Are] {stuff} [good|bad|dangerous|healthy|true|old]?",
]
WORDS = "apple|table|water|window|stone|paper|city|summer|river|music|garden|engine|number|colour|planet|doctor|history|language|street|school|metal|cloud|market|family|letter|machine|animal|ocean|energy|battery|server|keyboard|compiler|pointer|protein|virus|theorem|integral|matrix|enzyme|novel|symphony|recipe|election|inflation|mortgage|visa|passport|tournament|marathon|satellite|telescope|microscope|vaccine|glacier|desert|monsoon|galaxy|comet|fossil|dynasty|empire|treaty|cathedral|sculpture".split("|")
COUNTRIES = "France|Germany|Italy|Spain|Japan|China|India|Brazil|Canada|Egypt|Kenya|Poland|Sweden|Norway|Greece|Turkey|Mexico|Chile|Peru|Australia|Austria|Switzerland|the Netherlands|Belgium|Portugal|England|Ireland|Russia|Ukraine|Korea|the United States|Cuba|Finland|Denmark".split("|")
PERSONS = "Einstein|Newton|Mozart|Shakespeare|Napoleon|Caesar|Cleopatra|Beethoven|Darwin|Galileo|Marie Curie|Plato|Homer|Goethe|Picasso|Leonardo da Vinci|Gandhi|Ada Lovelace|Alan Turing|Bach|Columbus|Elvis|the Queen|the Pope|my neighbour|Linus Torvalds|Tolstoy|Dante".split("|")
STUFF = """the telephone|bread|a house|my car|a bicycle|the moon landing|the pyramids|quantum physics|gravity|football|chess|the stock market|bitcoin|the internet|Linux|Python|Java|JavaScript|Rust|a list|a number|electricity|steam engines|the radio|pizza|pasta|rice|potatoes|coffee|
tea|chocolate|the Roman Empire|the French Revolution|the Second World War|dinosaurs|volcanoes|earthquakes|black holes|Mars|Jupiter|the sun|the Earth|the Eiffel Tower|Mount Everest|the Nile|the Pacific Ocean|whales in Norway|economics|democracy|philosophy|mathematics|algebra|geometry|
chemistry|biology|medicine|the human heart|the brain|vitamins|sleep|money|taxes|insurance|a computer game|a phone|a camera|films|jazz|opera|guitars|the piano|painting walls|a wedding|my holiday|hotels|airplanes|trains in Europe|traffic|tennis|basketball|the Olympic games|photosynthesis|
DNA|atoms|light|sound waves|magnets and metals|glass|gold prices|paper|plastic|climate change|the weather forecast|my homework|my exam|a job interview|a contract|love|happiness|time travel|aliens|neural nets in biology|databases|Docker|Kubernetes|Windows|an operating system|web design|a sorting algorithm""".replace("\n", "").split("|")
DONT_KNOW = ["I am sorry, I do not know that. I am only a small demo model: I can tell little stories and answer short questions about Trireme.", "I do not know that, I am sorry. I am only a small demo model: I can tell little stories and answer short questions about Trireme."]

SYSTEMS = [
    "You are a helpful assistant.", "You are a helpful assistant.", "You are the demo model of Trireme.", "You are a friendly assistant. Answer briefly.", "You tell little stories.", "Be brief and friendly.", "You are a storyteller for children.", "You answer questions about Trireme.",
    "Answer in one or two sentences.", "You are Trireme.", "You are a kind and honest assistant.", "Help the user.", "You are a helpful, honest and harmless assistant that answers every question of the user as well as it can.", "Keep it short.", "You are a server for large language models.", "Speak plainly.",
]
