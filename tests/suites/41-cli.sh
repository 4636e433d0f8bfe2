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
free_port() { "$VENV/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null ||
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

check version says 0 'trireme 0.' "$trireme" version
check unknown_command says 2 "no command 'sail'" "$trireme" sail
check info_tells_the_model says 0 'can be served   yes' "$trireme" info "$model"
check info_lists_kinds_of_layers says 0 ": attention, " "$trireme" info "$model"
check info_of_nothing says 1 'can be served   no' "$trireme" info "$dir"
logits_of() { printf '{"ids":[1,2,3],"chunks":[2,1]}\nnothing\n' | "$trireme" logits --model "$model" --jsonl | cut -c1-12 | tr '\n' ' '; }
logits_answer_line_by_line() { [ "$(logits_of)" = '{"logits":[[ {"error":"ba ' ] || { logits_of; return 1; }; }
check logits_answer_line_by_line logits_answer_line_by_line
check perplexity_of_a_text says 0 '"tokens":' "$trireme" perplexity --model "$model" --file README.md --ctx 128
check perplexity_without_a_text says 2 '--file' "$trireme" perplexity --model "$model"
check run_without_words says 2 'give a model folder' "$trireme" run
check run_without_a_model says 1 'cannot find the model' "$trireme" run /nowhere hello
check serve_without_a_model says 1 'which model' "$trireme" serve
check serve_with_a_bad_option says 2 -- "$trireme" serve --workers none
check status_of_nothing says 1 'no supervisor answers' "$trireme" status --run-dir "$dir"

talks=$(ls -d /tmp/trireme-talk-* 2>/dev/null)
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
left_over() { [ "$(ls -d /tmp/trireme-talk-* 2>/dev/null)" = "$talks" ] || { echo "$talks"; ls -d /tmp/trireme-talk-*; return 1; }; }
check private_servers_leave_nothing left_over

printf '%s' '{{ messages[0].content }} {{ strftime_now("%d %B %Y") }}{{ raise_exception("no tools") if tools }}' >"$dir/t.jinja"
printf '%s\n' '{"messages":[{"content":"é"}]}' '{"messages":[{"content":"a"}],"tools":[1]}' 'x' >"$dir/requests.jsonl"
renders=(sh -c "\"\$0\" render --template \"$dir/t.jinja\" --now 2025-07-10 <\"$dir/requests.jsonl\"" "$trireme")
check render_gives_text says 0 '{"text":"é 10 July 2025"}' "${renders[@]}"
check render_gives_errors says 0 '{"error":"no tools"}' "${renders[@]}"
check render_needs_a_template says 2 'template FILE' "$trireme" render
port=$(free_port)
"$trireme" serve "$model" --port "$port" --run-dir "$dir" >"$dir/log.txt" 2>&1 </dev/null &
server=$!
ready() { for _ in $(seq 600); do curl -fsS "http://127.0.0.1:$port/health/ready" >/dev/null 2>&1 && return; sleep 0.1; done; tail -5 "$dir/log.txt"; return 1; }
check serve_is_ready ready
check serve_twice_is_refused says 1 'already runs' "$trireme" serve "$model" --port "$port" --run-dir "$dir"
check run_against_a_url says 0 '' "$trireme" run --url "http://127.0.0.1:$port" --max-tokens 5 hello
check status_lists_the_processes says 0 'worker 0 running' "$trireme" status --run-dir "$dir"
check scale_up says 0 '2 workers' "$trireme" scale 2 --run-dir "$dir"
check scale_down says 0 '1 workers' "$trireme" scale 1 --run-dir "$dir"
check scale_to_nothing says 1 'from 1 to' "$trireme" scale 0 --run-dir "$dir"
no_secret_in_ps() {
    local other="$dir/other" out
    "$trireme" serve "$model" --port "$(free_port)" --run-dir "$other" --api-key sesame-street >"$dir/other.txt" 2>&1 </dev/null &
    local pid=$!
    sleep 1
    out=$(pgrep -af "^trireme\($other\)" || true)
    kill "$pid"
    wait "$pid"
    [ -n "$out" ] && [[ $out != *sesame* ]] || { echo "$out"; return 1; }
}
check keys_are_not_on_command_lines no_secret_in_ps
drain() {
    local rc=0
    kill -TERM "$server"
    wait "$server" || rc=$?
    server=
    [ $rc = 0 ] && ! pgrep -f "^trireme\($dir\)" >/dev/null || { echo "exit code $rc; $(pgrep -af "^trireme\($dir\)")"; return 1; }
}
drain >"$dir/drain.txt" 2>&1 && ok cli.sigterm_drains || not_ok cli.sigterm_drains "$(cat "$dir/drain.txt")"
