#!/usr/bin/env bash
# timeout: 300
# What a person types: info, run, chat, serve, status, scale, against the bundled model.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
trireme=$BUILD_RELEASE/bin/trireme
model=demo/model
dir=$(mktemp -d /tmp/trm-cli-XXXXXX)
server=
clean() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null
    pkill -9 -f "^trireme\($dir\)" 2>/dev/null
    rm -rf "$dir"
}
trap clean EXIT
check() { # check NAME COMMAND...: true or what the command printed
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then ok "cli.$name"; else not_ok "cli.$name" "$(printf '%s' "$out" | tail -3 | tr '\n' ' ')"; fi
}
says() { # says CODE TEXT COMMAND...: ends with CODE and prints TEXT
    local code=$1 text=$2 out rc=0
    shift 2
    out=$(timeout 100 "$@" 2>&1 </dev/null) || rc=$?
    [ "$rc" = "$code" ] && [[ $out == *"$text"* ]] || { printf 'exit code %s: %s' "$rc" "$out"; return 1; }
}
python=$VENV/bin/python
[ -x "$python" ] || python=python3
free_port() { python3 -c "import sys; sys.path.insert(0, '$ROOT/tests/e2e'); import serve; print(serve.free_port())"; }

check version says 0 'trireme 0.' "$trireme" version
check unknown_command says 2 "no command 'sail'" "$trireme" sail
check misspelled_variable_is_told says 0 'did you mean TRIREME_MAX_CONTEXT (--max-context)?' env TRIREME_MAX_CONTEXTS=9 "$trireme" version
check output_that_is_lost_is_a_failure says 1 'cannot write to standard output: No space left on device' sh -c '"$0" version >/dev/full' "$trireme"
check answer_that_is_lost_is_a_failure says 1 'cannot write to standard output' sh -c '"$0" tokenize "$1" hi >/dev/full' "$trireme" "$model"
check help_of_a_command says 0 'Usage: trireme quantize' "$trireme" help quantize
check help_of_no_command says 2 "no command 'sail'" "$trireme" help sail
check info_tells_the_model says 0 'can be served   yes' "$trireme" info "$model"
check info_lists_kinds_of_layers says 0 ": attention, " "$trireme" info "$model"
check info_of_a_file_that_is_no_model says 1 'is no model' "$trireme" info README.md
check info_tells_how_embeddings_are_made says 0 'embeddings      --pooling last, of length 1' "$trireme" info tests/goldens/embeddings/qwen3-last
check quantize_lists_the_types says 2 'known: f32, f16' "$trireme" quantize --model "$model" --out "$dir/x.gguf" --type q9
counts_values() {
    mkdir "$dir/quantized"
    "$trireme" quantize --model "$model" --out "$dir/quantized/model.gguf" --type q4_0 || return 1
    says 0 'weights         4.72 M' "$trireme" info "$dir/quantized/model.gguf"
}
check info_counts_values_not_blocks counts_values
tells() { # tells TEXT COMMAND...: it prints TEXT
    local text=$1 out
    shift
    out=$("$@" 2>&1)
    [[ $out == *"$text"* ]] || { printf '%s' "$out"; return 1; }
}
info_of_config() { # info_of_config TEXT: of a folder whose config.json has it
    mkdir -p "$dir/odd" && printf '%s' "$1" >"$dir/odd/config.json" && "$trireme" info "$dir/odd"
}
check info_of_an_empty_config tells "config.json: unexpected end of the text" info_of_config ""
check info_of_a_config_that_is_a_list tells "config.json: expected an object" info_of_config "[]"
cut_once() { # a GGUF file that is cut: said once, though config, tokenizer and embeddings all are in it
    printf 'GGUF\3\0\0\0\1\0\0\0\0\0' >"$dir/cut.gguf"
    [ "$("$trireme" info "$dir/cut.gguf" 2>&1 | grep -c 'the header is cut')" = 1 ]
}
check info_of_a_cut_file_says_so_once cut_once
check info_of_nothing says 1 'can be served   no' "$trireme" info "$dir"
is_json() { # is_json EXPRESSION COMMAND...: the command prints a document d for which the expression is true
    local expression=$1
    shift
    "$@" 2>/dev/null </dev/null | "$python" -c 'import json, sys; d = json.load(sys.stdin); ok = eval(sys.argv[1]); print(d); sys.exit(not ok)' "$expression"
}
check info_as_json is_json 'd["family"] == "llama" and d["weights"] == 4721408 and d["can_be_served"] and d["types"][0]["type"] == "BF16"' "$trireme" info --json "$model"
check info_as_json_of_no_model is_json 'not d["can_be_served"] and "is no model" in d["errors"][0]' "$trireme" info README.md --json
check doctor_as_json is_json 'd["fits"] and d["weight_bytes"] == 9442816 and d["threads"] > 0' "$trireme" doctor "$model" --json
check doctor_tells_sizes_for_people says 0 'weights         9.44 MB' "$trireme" doctor "$model"
check convert_tells_what_it_wrote says 0 '9.75 MB from 9.45 MB' "$trireme" convert "$model" "$dir/demo.gguf"
check convert_writes_over_nothing says 2 '--force' "$trireme" convert "$model" "$dir/demo.gguf"
check convert_writes_over_with_force says 0 'as f16' "$trireme" convert --force "$model" "$dir/demo.gguf" f16
check convert_writes_not_over_what_it_reads says 2 'while it is read' "$trireme" convert --force "$dir/demo.gguf" "$dir/demo.gguf" f16
check convert_to_a_folder says 0 'wrote' "$trireme" convert "$dir/demo.gguf" "$dir/demo"
check convert_writes_over_no_folder says 2 '--force' "$trireme" quantize "$model" "$dir/demo" int8
check tokenize_takes_arguments says 0 '3066,1267,320' "$trireme" tokenize "$model" 'Hello you'
tokens_of() { printf '{"text":"Hello you"}\n{"text":"Hello you","offsets":true}\n{"text":3}\n' | "$trireme" tokenize "$model" --jsonl | tr '\n' ' '; }
tokenize_answers_line_by_line() { [ "$(tokens_of)" = '{"ids":[3066,1267,320]} {"ids":[3066,1267,320],"offsets":[[0,0],[0,5],[5,9]]} {"error":"\"text\" must be a string"} ' ] || { tokens_of; return 1; }; }
check tokenize_answers_line_by_line tokenize_answers_line_by_line
check decode_takes_arguments says 0 'Hello you' "$trireme" decode "$model" 3066,1267,320
check decode_takes_ids_one_by_one says 0 'Hello you' "$trireme" decode "$model" 3066 1267 320
check decode_takes_a_flag says 0 'Hello you' "$trireme" decode --model "$model" --ids 3066,1267,320
check tokenize_without_a_vocabulary says 2 'give a model, or --vocab' "$trireme" tokenize
check decode_without_a_vocabulary says 2 'give a model, or --vocab' "$trireme" decode
check logits_without_a_model says 2 'which model?' "$trireme" logits
logits_of() { printf '{"ids":[1,2,3],"chunks":[2,1]}\nnothing\n' | "$trireme" logits --model "$model" --jsonl | cut -c1-12 | tr '\n' ' '; }
logits_answer_line_by_line() { [ "$(logits_of)" = '{"logits":[[ {"error":"ba ' ] || { logits_of; return 1; }; }
check logits_answer_line_by_line logits_answer_line_by_line
check perplexity_of_a_text says 0 '"tokens":' "$trireme" perplexity --model "$model" --file README.md --ctx 128
check perplexity_takes_arguments says 0 '"tokens":' "$trireme" perplexity "$model" LICENSE -c 128 -ngl 99
check perplexity_of_a_context_too_long says 1 "model's context of" "$trireme" perplexity "$model" LICENSE --ctx-size 999999
logits_within() { printf '{"ids":[1,2,3]}\n{"ids":[1,2]}\n' | "$trireme" logits "$model" -c 2 -ngl 0 | cut -c1-60 | tr '\n' ' '; }
logits_take_a_context() { [[ $(logits_within) == '{"error":"3 ids are more than the context of 2"} {"logits":[['* ]] || { logits_within; return 1; }; }
check logits_take_a_context logits_take_a_context
check logits_of_a_context_too_long says 1 "model's context of" "$trireme" logits "$model" -c 999999
check doctor_takes_layers says 0 'fits            yes' "$trireme" doctor "$model" -ngl 33
check perplexity_without_a_text says 2 '--file' "$trireme" perplexity --model "$model"
check run_without_words says 2 'give a model folder' "$trireme" run
piped() { [ "$(echo 'Who are you?' | "$trireme" run "$model" -n 8 --temp 0)" = "$("$trireme" run "$model" 'Who are you?' -n 8 --temp 0 </dev/null)" ]; }
check run_reads_a_pipe piped
# what lies in a pipe or a file is asked before the prompt; without any the prompt is asked alone
beside() {
    local want
    want=$("$trireme" run "$model" --raw $'Once upon a time\n\nthere' -n 8 --temp 0 </dev/null) || return 1
    echo 'Once upon a time' >"$dir/beside"
    [ "$("$trireme" run "$model" --raw there -n 8 --temp 0 <"$dir/beside")" = "$want" ] &&
        [ "$(cat "$dir/beside" | "$trireme" run "$model" --raw -p there -n 8 --temp 0)" = "$want" ] &&
        [ "$("$trireme" run "$model" --raw there -n 8 --temp 0 </dev/null)" != "$want" ]
}
check run_asks_a_pipe_before_its_prompt beside
check an_empty_key_opens_no_server says 1 'the API key is empty' "$trireme" serve "$model" --api-key "" --port "$(free_port)" --run-dir "$dir/empty-key"
check run_of_an_empty_pipe says 1 'standard input is empty' "$trireme" run "$model"
check run_of_a_name_without_a_hub says 1 "one of Ollama's ollama:llama3.2" "$trireme" run llama3.2 hi
check serve_of_a_name_without_a_hub says 1 "one of Ollama's ollama:llama3.2" "$trireme" serve llama3.2
check info_of_a_name_without_a_hub says 1 "one of Ollama's ollama:llama3.2" "$trireme" show llama3.2
check list_of_an_empty_cache is_json 'd["models"] == []' env HF_HOME="$dir/none" OLLAMA_MODELS="$dir/none" TRIREME_OLLAMA_CACHE="$dir/none" "$trireme" list --json
check run_without_a_model says 1 'cannot find the model' "$trireme" run /nowhere hello
check serve_without_a_model says 1 'which model' "$trireme" serve
check a_flag_of_others_is_refused_with_a_reason says 2 'divides layers among GPUs' "$trireme" serve "$model" -sm row
check a_mistyped_flag_is_refused_with_the_nearest says 2 'did you mean --max-context?' "$trireme" serve "$model" --max-modle-len 512
helps_in_groups() { [ "$("$trireme" serve --help | sed -n '/matters first/,/^$/p' | grep -c '^  ....--')" = 10 ] && says 0 'The HTTP API (gateway):' "$trireme" serve --help; }
check help_begins_with_ten helps_in_groups
check serve_with_a_bad_option says 2 -- "$trireme" serve --workers none
check status_of_nothing says 1 'no supervisor answers' "$trireme" status --run-dir "$dir"

talks=$(ls -d /tmp/trireme-talk-* 2>/dev/null)
with_few_files() { ulimit -n 24 && says 1 'may open only 24 files' "$@"; }
check run_says_at_once_that_too_few_files_may_be_open with_few_files "$trireme" run "$model" hello
if unshare -n true 2>/dev/null; then
    check run_says_at_once_that_the_loopback_is_down says 1 'is the loopback interface up' unshare -n "$trireme" run "$model" hello
    check serve_says_at_once_that_the_loopback_is_down says 1 'is the loopback interface up' unshare -n "$trireme" serve "$model" --run-dir "$dir/down"
    check run_works_without_version_4 env T="$trireme" M="$model" unshare -n bash -c 'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && timeout 60 "$T" run "$M" hello'
else
    for name in run_says_at_once_that_the_loopback_is_down serve_says_at_once_that_the_loopback_is_down run_works_without_version_4; do skip netns cli.$name "no network namespaces here"; done
fi
run_twice() {
    local first second
    first=$("$trireme" run --seed 7 --max-tokens 40 "$model" 'Tell me a story.' </dev/null 2>&1) || { echo "$first"; return 1; }
    second=$("$trireme" run --seed 7 --max-tokens 40 "$model" 'Tell me a story.' </dev/null 2>&1) || { echo "$second"; return 1; }
    [ ${#first} -gt 40 ] && [ "$first" = "$second" ] || { printf '%s / %s' "$first" "$second"; return 1; }
}
check run_with_a_seed_says_the_same_twice run_twice
chat_remembers() {
    local out
    out=$(printf 'Hello!\n/new\nHello!\n/quit\n' | "$trireme" chat --temperature 0 --max-tokens 30 "$model" 2>&1) || { echo "$out"; return 1; }
    mapfile -t lines <<<"$out"
    [ ${#lines[0]} -gt 3 ] && [ "${lines[0]}" = "${lines[1]:-}" ] || { echo "$out"; return 1; }
}
check chat_begins_anew chat_remembers
mkdir "$dir/plain" && cp "$model"/*.json "$dir/plain/" && sed -i 's/"chat_template"/"no_template"/; s/<|\(end\|user\)|>/<|other-\1|>/g' "$dir"/plain/*.json && ln -s "$(realpath "$model")/model.safetensors" "$dir/plain/"
check a_context_above_the_models_is_said_to_be_clamped says 0 '--max-context 99999 is more than the model was made for; it is 2048 tokens' "$trireme" run -v -c 99999 --max-tokens 2 "$model" hello
# flags of the systems before this one (XandLLM, blazr), as their users type them
check run_takes_a_prompt_by_name says 0 ' tokens generated | first after ' "$trireme" run -m "$model" --prompt Hi --system "Be kind." --max-tokens 5 --temperature 0.7 \
    --top-p 0.9 --top-k 40 --repetition-penalty 1.1 --frequency-penalty 0.1 --presence-penalty 0.1 --seed 3 --show-think --stats --cpu
greedy() { "$trireme" "$1" --temperature 0 "${@:2}" "$model" --prompt "Once upon a time" --raw --seed 1 --max-tokens 6; }
generates() { [ -n "$(greedy generate)" ] && [ "$(greedy generate)" = "$(greedy run)" ]; }
check generate_is_run_with_other_defaults generates
penalized() { [ "$(greedy run --repetition-penalty 8 --presence-penalty 2)" != "$(greedy run)" ]; }
check run_sends_its_penalties penalized
narrowed() { [ "$(greedy run --temperature 2 --min-p 1)" = "$(greedy run)" ] && [ "$(greedy run --temperature 2)" != "$(greedy run)" ]; }
check run_sends_min_p narrowed
looks_back_at_nothing() { [ "$(greedy run --repetition-penalty 8 --presence-penalty 2 --repeat-last-n 0)" = "$(greedy run)" ]; }
check run_sends_how_far_penalties_look_back looks_back_at_nothing
completes_in_a_shell() { [ -n "$("$trireme" completions bash)" ] && [ "$("$trireme" completions bash)" = "$("$trireme" help --completion bash)" ]; }
check completions_are_known_by_that_name completes_in_a_shell
check completions_of_no_shell says 2 'fish' "$trireme" completions sail
check run_takes_one_device says 2 'which of them?' "$trireme" run "$model" --prompt Hi --cpu --gpu
check run_takes_one_prompt says 2 '--prompt was given' "$trireme" run "$model" Hi --prompt Hi
echo sesame >"$dir/keys"
check run_asks_its_own_server_without_a_key says 0 '' env TRIREME_API_KEY=a TRIREME_API_KEY_FILE="$dir/keys" "$trireme" run "$model" hello --max-tokens 2
check run_asks_its_own_server_without_a_key_of_others says 0 '' env BLAZR_API_KEY=a "$trireme" run "$model" hello --max-tokens 2
check run_beside_a_port_takes_no_model says 2 'or TRIREME_PORT) is a running server' env TRIREME_PORT=9 "$trireme" run "$model" hello
check run_takes_a_prompt_by_a_letter says 0 '' "$trireme" run "$model" -p Hi -n 2
mkdir "$dir/bare" && cp "$model/config.json" "$dir/bare/" && ln -s "$(realpath "$model")/model.safetensors" "$dir/bare/"
check a_model_without_a_vocabulary_says_so says 1 'has no tokenizer.json; see --vocab' "$trireme" run "$dir/bare" Hi
completes_with_a_vocabulary() { [ "$("$trireme" generate "$dir/bare" --vocab "$dir/plain/tokenizer.json" --prompt "Once upon a time" --temperature 0 --max-tokens 6)" = "$(greedy run)" ]; }
check generate_takes_a_vocabulary_and_completes completes_with_a_vocabulary
check vocabularies_are_known_by_name says 1 'needs a folder with' "$trireme" generate "$model" Hi --vocab cl100k_base
check a_model_alone_is_served says 2 "trireme serve: unknown option '--sail'" "$trireme" "$model" --sail
check options_may_come_first says 2 "trireme ps: unknown option '--sail'" "$trireme" --config /dev/null ps --sail
check variables_of_others says 1 "cannot find the model 'no/such/model'" env -u HF_ENDPOINT BOLT_MODEL=no/such/model "$trireme" -p 1
check bench_starts_a_server says 0 'Successful requests:                     2' "$trireme" bench "$model" --num-prompts 2 --random-input-len 8 --random-output-len 2
check bench_compares_two_files says 2 'compare takes two JSON reports' "$trireme" bench compare one.json
check bench_plots_a_file says 2 'plot takes one to 4 JSON reports' "$trireme" bench plot
check bench_plots_a_few_files says 2 'plot takes one to 4 JSON reports' "$trireme" bench plot 1 2 3 4 5
check bench_of_nothing says 2 'say serve, compare, plot or a model' "$trireme" bench
check list_says_where says 0 "$dir/hub" env HF_HUB_CACHE="$dir/hub" "$trireme" list -v
check version_by_a_letter says 0 'trireme 0.' "$trireme" -V
check run_without_a_template_names_raw says 1 'trireme run --raw' "$trireme" run --max-tokens 3 "$dir/plain" hello
mkdir "$dir/torn" && cp "$model/config.json" "$dir/torn/" && ln -s "$(realpath "$model")/model.safetensors" "$dir/torn/" && echo '{"model":{"vocab":{"a":"b"}}}' >"$dir/torn/tokenizer.json"
check run_with_a_torn_tokenizer_ends says 1 'bundle cannot be used: tokenizer.json' "$trireme" run "$dir/torn" Hi
mkdir "$dir/tmp"
check run_keeps_its_files_in_tmpdir says 0 "run_dir=$dir/tmp/trireme-talk-" env TMPDIR="$dir/tmp" "$trireme" run -v --max-tokens 1 "$model" hello
left_nothing() { [ -z "$(ls -A "$dir/tmp")" ] || { ls -A "$dir/tmp"; return 1; }; }
check run_leaves_nothing_in_tmpdir left_nothing
check bench_tells_what_others_flags_are_here says 2 '--num-prompts says how many' "$trireme" bench "$model" --decode-tokens 2 --concurrency 1 --runs 3
left_over() { [ "$(ls -d /tmp/trireme-talk-* 2>/dev/null)" = "$talks" ] || { echo "$talks"; ls -d /tmp/trireme-talk-*; return 1; }; }
edits=
ldd "$trireme" 2>/dev/null | grep -q libedit || edits=--plain
check chat_on_a_terminal "$python" tests/tools/chat_terminal.py "$(realpath "$trireme")" "$model" "$dir" $edits
saved_conversation() {
    local out
    printf '{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}' >"$dir/bad.json"
    out=$(printf '/system Be kind.\nHello!\n/save %s/said.json\n/clear\n/load %s/bad.json\n/load %s/said.json\n/history\n/quit\n' "$dir" "$dir" "$dir" |
        "$trireme" chat --temperature 0 --max-tokens 8 "$model" 2>&1) || { echo "$out"; return 1; }
    [[ $out == *'no conversation'*'loaded, 2 messages'*'system: Be kind.'*'user: Hello!'*'assistant: '* && $out != *$'\033'* ]] && grep -q '"Be kind."' "$dir/said.json" || { echo "$out"; return 1; }
}
check chat_saves_and_loads saved_conversation
long_messages() { # of several lines, between quotes or with "\" at their ends
    printf '"""Hello\nthere"""\nHi\\\nyou\n"""a"""\n/save %s/long.json\n/quit\n' "$dir" |
        "$trireme" chat --temperature 0 --max-tokens 2 "$model" >"$dir/long.out" 2>&1 || { cat "$dir/long.out"; return 1; }
    grep -qF '"Hello\nthere"' "$dir/long.json" && grep -qF '"Hi\nyou"' "$dir/long.json" && grep -qF '"user","content":"a"' "$dir/long.json" ||
        { cat "$dir/long.json"; return 1; }
}
check chat_takes_messages_of_several_lines long_messages
check private_servers_leave_nothing left_over

printf '%s' '{{ messages[0].content }} {{ strftime_now("%d %B %Y") }}{{ raise_exception("no tools") if tools }}' >"$dir/t.jinja"
printf '%s\n' '{"messages":[{"content":"é"}]}' '{"messages":[{"content":"a"}],"tools":[1]}' 'x' >"$dir/requests.jsonl"
renders=(sh -c "\"\$0\" render --template \"$dir/t.jinja\" --now 2025-07-10 <\"$dir/requests.jsonl\"" "$trireme")
check render_gives_text says 0 '{"text":"é 10 July 2025"}' "${renders[@]}"
check render_takes_jsonl says 0 '{"text":"é 10 July 2025"}' sh -c "\"\$0\" render --jsonl \"$dir/t.jinja\" --now 2025-07-10 <\"$dir/requests.jsonl\"" "$trireme"
check render_gives_errors says 0 '{"error":"no tools"}' "${renders[@]}"
check render_needs_a_template says 2 'template FILE' "$trireme" render

# What cannot pass by itself ends serve at once: one start of the process that cannot do it, one line that says why, and it is the last.
gives_up() { # gives_up ROLE TEXT MODEL OPTION...
    local role=$1 text=$2 rc=0 out
    shift 2
    out=$(timeout 60 "$trireme" serve "$@" --port "$(free_port)" --run-dir "$dir/hopeless" 2>&1 </dev/null) || rc=$?
    [ $rc = 1 ] && [ "$(grep -c "$role 0 started" <<<"$out")" = 1 ] && [ "$(grep -cF -- "$text" <<<"$out")" = 1 ] &&
        [[ $(tail -1 <<<"$out") == *"$role 0 cannot start: "*"$text"* ]] || { printf 'exit code %s: %s' $rc "$out"; return 1; }
}
printf '{%% if x %%}' >"$dir/open.jinja"
mkdir -p "$dir/strange" "$dir/cut"
cp "$model"/*.json "$dir/strange/" && sed -i 's/"[A-Za-z]*ForCausalLM"/"NoSuchForCausalLM"/; s/"model_type": *"[a-z0-9_]*"/"model_type": "no_such"/' "$dir/strange/config.json" && ln -s "$(realpath "$model")/model.safetensors" "$dir/strange/"
cp "$model"/*.json "$dir/cut/" && head -c 100000 "$model/model.safetensors" >"$dir/cut/model.safetensors"
check serve_ends_for_an_unknown_set gives_up worker "unknown instruction set 'avx9'" "$model" --isa avx9
absent=$(uname -m | grep -q x86_64 && echo neon || echo avx2)
check serve_ends_for_an_absent_set gives_up worker "lacks the instruction set '$absent'" "$model" --isa "$absent"
check serve_ends_for_an_unknown_feature env TRIREME_CPU_FEATURES=-avx9 bash -c "$(declare -f gives_up free_port); trireme=$trireme dir=$dir ROOT=$ROOT; gives_up worker \"unknown feature 'avx9'\" $model"
check serve_ends_for_a_bad_template gives_up gateway 'template' "$model" --chat-template "$dir/open.jinja"
check serve_ends_for_a_missing_template gives_up gateway "nowhere.jinja" "$model" --chat-template "$dir/nowhere.jinja"
check serve_ends_for_an_unknown_parser gives_up gateway "'nope'" "$model" --reasoning-parser nope
check serve_ends_for_an_unknown_family gives_up worker "NoSuchForCausalLM" "$dir/strange"
check serve_ends_for_a_cache_without_a_block gives_up worker "raise --kv-bytes" "$model" --kv-bytes 1k
check serve_ends_for_cut_weights gives_up worker "model.safetensors" "$dir/cut"

port=$(free_port)
"$trireme" serve "$model" --port "$port" --run-dir "$dir" --served-model-name uno due tre --seed 7 -c 512 -np 8 -fa --trust-remote-code >"$dir/log.txt" 2>&1 </dev/null &
server=$!
ready() { for _ in $(seq 600); do curl -fsS "http://127.0.0.1:$port/health/ready" >/dev/null 2>&1 && return; sleep 0.1; done; tail -5 "$dir/log.txt"; return 1; }
check serve_is_ready ready
check serve_on_a_port_in_use_says_why says 1 "gateway 0 cannot start: cannot listen on '127.0.0.1' port $port" "$trireme" serve "$model" --port "$port" --run-dir "$dir/taken"
check serve_twice_is_refused says 1 'already runs' "$trireme" serve "$model" --port "$port" --run-dir "$dir"
called() { # called MODEL [FIELD...]: the id that an answer carries, and its text
    curl -fsS "http://127.0.0.1:$port/v1/completions" -d "{\"model\":\"$1\",\"prompt\":\"The\",\"max_tokens\":12}" |
        "$python" -c 'import json, sys; a = json.load(sys.stdin); print(a["model"], a["choices"][0]["text"])'
}
names_lead_to_the_model() {
    local ids first second
    ids=$(curl -fsS "http://127.0.0.1:$port/v1/models" | "$python" -c 'import json, sys; print(*[m["id"] for m in json.load(sys.stdin)["data"]])')
    first=$(called uno) second=$(called tre) # one seed for all that bring none: the same text
    [ "$ids" = 'due tre uno' ] && [[ $first == 'uno '* ]] && [ "$first" = "$second" ] || { echo "$ids / $first / $second"; return 1; }
    ! called quattro >/dev/null 2>&1
}
check served_names_lead_to_the_model names_lead_to_the_model
# who asked for a GPU (serve --gpu) reads why there is none
says_where_it_computes() { grep -q 'worker.*: computing on the CPU: ' "$dir/log.txt" || command -v nvidia-smi; }
check a_worker_without_a_gpu_says_why says_where_it_computes
says_what_it_took() { grep -q 'info serve.*: -fa: attention' "$dir/log.txt" && grep -q 'info serve.*: --trust-remote-code: no code' "$dir/log.txt"; }
check flags_of_others_are_noted_in_the_log says_what_it_took
check run_takes_a_model_by_flag says 0 '' "$trireme" run --max-tokens 2 --gpu-layers 0 --num-ctx 256 --paged-attention --graphs -m "$model" hello
check run_of_a_name_against_a_url says 0 '' "$trireme" run --url "http://127.0.0.1:$port" -m due --max-tokens 2 hello
check run_of_no_name_against_a_url says 1 "'cinque'" "$trireme" run --url "http://127.0.0.1:$port" -m cinque --max-tokens 2 hello
check run_against_a_url says 0 '' "$trireme" run --server "http://127.0.0.1:$port" --max-tokens 5 hello
check status_lists_the_processes says 0 'worker 0 running' "$trireme" status --run-dir "$dir"
check status_as_json is_json '[p["role"] for p in d["processes"]].count("worker") == 1 and all(p["pid"] > 0 and p["state"] == "running" for p in d["processes"])' "$trireme" status --json --run-dir "$dir"
check scale_up says 0 '2 workers' "$trireme" scale 2 --run-dir "$dir"
check scale_down says 0 '1 worker' "$trireme" scale 1 --run-dir "$dir"
check scale_to_nothing says 1 'from 1 to' "$trireme" scale 0 --run-dir "$dir"
no_secret_in_ps() {
    local other="$dir/other" out other_port rc=0 how=(env) key=()
    other_port=$(free_port)
    if [ "$1" = flag ]; then key=(--api-key sesame-street); else how=(env TRIREME_API_KEY=sesame-street); fi
    "${how[@]}" "$trireme" serve "$model" --port "$other_port" --run-dir "$other" "${key[@]}" >"$dir/other.txt" 2>&1 </dev/null &
    local pid=$!
    for _ in $(seq 300); do curl -fs -o /dev/null "http://127.0.0.1:$other_port/health/ready" && break; sleep 0.1; done
    # The command lines of all, and what the supervisor's children have in their environment.
    out=$(pgrep -af "^trireme\($other\)" || true)
    for child in $(pgrep -f "^trireme\($other\)"); do ! grep -aq sesame "/proc/$child/environ" || out+=" sesame in $child's environment"; done
    out+=$(tr '\0' ' ' <"/proc/$pid/cmdline")
    curl -fs -o /dev/null -H 'X-Api-Key: sesame-street' "http://127.0.0.1:$other_port/v1/models" || out+=' sesame does not open'
    ! curl -fs -o /dev/null "http://127.0.0.1:$other_port/v1/models" || out+=' opens without sesame'
    kill "$pid"
    wait "$pid" || rc=$?
    [ "$rc" = 0 ] && [[ $out == *worker* ]] && [[ $out != *sesame* ]] || { echo "$rc $out"; return 1; }
}
check keys_are_not_on_command_lines no_secret_in_ps flag
check keys_of_the_environment_are_not_handed_on no_secret_in_ps environment
drain() {
    local rc=0
    kill -TERM "$server"
    wait "$server" || rc=$?
    server=
    [ $rc = 0 ] && ! pgrep -f "^trireme\($dir\)" >/dev/null || { echo "exit code $rc; $(pgrep -af "^trireme\($dir\)")"; return 1; }
}
drain >"$dir/drain.txt" 2>&1 && ok cli.sigterm_drains || not_ok cli.sigterm_drains "$(cat "$dir/drain.txt")"
