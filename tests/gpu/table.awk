# The ledger of ./dev gpu --run as markdown tables: the newest line of each step and figure. -v device=, -v commit=: only theirs.
function field(key,   at, rest) { # the value of "key": in $0, without quotes
    at = index($0, "\"" key "\":")
    if (!at) return ""
    rest = substr($0, at + length(key) + 3)
    if (substr(rest, 1, 1) == "\"") { rest = substr(rest, 2); return substr(rest, 1, index(rest, "\"") - 1) }
    match(rest, /^[-0-9.e+]+/)
    return substr(rest, 1, RLENGTH)
}
{
    if (device != "" && field("device") != device) next
    if (commit != "" && field("commit") != commit) next
    key = field("device") SUBSEP field("kind") SUBSEP field("step") SUBSEP field("name")
    if (!(key in line)) order[++count] = key
    line[key] = $0
}
END {
    steps = figures = 0
    for (i = 1; i <= count; i++) {
        $0 = line[order[i]]
        if (field("kind") != "step") continue
        if (!steps++) print "| step | device | commit | when | outcome | seconds | |\n| --- | --- | --- | --- | --- | --- | --- |"
        note = field("note"); gsub(/\|/, "/", note)
        printf "| %s | %s | %s | %s | %s | %s | %s |\n", field("step"), field("device"), field("commit"), field("time"), field("status"), field("seconds"), substr(note, 1, 120)
    }
    for (i = 1; i <= count; i++) {
        $0 = line[order[i]]
        if (field("kind") != "figure") continue
        if (!figures++) print "\n| what | device | commit | time, µs | GB/s | TFLOP/s | of the floor | |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
        if (field("skipped") != "") printf "| %s | %s | %s | | | | | not measured: %s |\n", field("name"), field("device"), field("commit"), field("skipped")
        else if (field("unit") != "") printf "| %s | %s | %s | | | | | %s %s |\n", field("name"), field("device"), field("commit"), field("value"), field("unit")
        else printf "| %s | %s | %s | %s | %s | %s | %s %% (%s) | |\n", field("name"), field("device"), field("commit"), field("us"), field("gbps"), field("tflops"), field("percent"), field("of")
    }
    if (!steps && !figures) print "Nothing yet."
}
