# generate.awk - what C needs of trireme.proto, which alone describes the messages: their structs, the rows that the codec walks, and the
# checks that codec_check.c has. Run when the build is configured; any awk will do.
#   awk -v want=messages|tables|checks -f generate.awk trireme.proto
# How the file is written is told at its top. A line that is not understood ends this with an error.

function snake(s,    out, i, c) {
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        out = out (c ~ /[A-Z]/ ? (i > 1 ? "_" : "") tolower(c) : c)
    }
    return out
}
function fail(why) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, why, $0 >"/dev/stderr"
    failed = 1
    exit 1
}
# The lines of comment before a definition, as one of C.
function comment(indent,    out, i) {
    for (i = 1; i <= note_count; i++)
        out = out (i == 1 ? indent "/* " : "\n" indent " * ") note[i]
    note_count = 0
    return out == "" ? "" : out " */\n"
}
# Splits what follows the ';' into the annotation and the comment behind it.
function read_tail(tail,    at) {
    annotation = remark = ""
    if (tail ~ /^\/\/= /) {
        annotation = substr(tail, 5)
        at = index(annotation, " | ")
        if (at) {
            remark = substr(annotation, at + 3)
            annotation = substr(annotation, 1, at - 1)
        }
    } else if (tail ~ /^\/\/ /)
        remark = substr(tail, 4)
    else if (tail != "")
        fail("a comment was expected behind ';'")
    if (remark != "")
        remark = " /* " remark " */"
}
function read_range(text,    at) {
    at = index(text, "..")
    if (!at)
        fail("a range was expected")
    low = substr(text, 1, at - 1)
    high = substr(text, at + 2)
}
function member(type, name) { struct_text = struct_text comment("    ") "    " type name ";" remark "\n" }
function row(kind, rest) { row_text = row_text "    " kind "(" number ", wire_" message ", " field rest "),\n" }

function number_field(type, any, bounded) {
    member(ctype[type], field)
    if (annotation == "")
        row(any, "")
    else {
        read_range(annotation)
        if (type == "uint64" && low != "0")
            fail("a uint64 begins at 0")
        row(bounded, type == "uint64" ? ", " high : ", " low ", " high)
    }
}
function bytes_field(    kind, at) {
    at = index(annotation, " ")
    kind = at ? substr(annotation, 1, at - 1) : annotation
    if (!(kind in bytes_type))
        fail("bytes are one of u128, text, blob, tokens, u32s, f32s, u128s")
    member(bytes_type[kind], field)
    if (kind == "u128") {
        row("U128", "")
        return
    }
    read_range(substr(annotation, at + 1))
    row(toupper(kind), ", " high)
}
function list_field(type,    count) {
    if (!(type in is_message))
        fail("only messages defined above are repeated")
    count = annotation
    sub(/ .*/, "", count)
    read_range(substr(annotation, length(count) + 2))
    member("const struct wire_" snake(type) " *", field)
    remark = ""
    member("size_t ", count)
    row("STRUCTS", ", " count ", " snake(type) ", " low ", " high)
}

BEGIN {
    ctype["bool"] = "bool "; ctype["uint32"] = "uint32_t "; ctype["uint64"] = "uint64_t "
    ctype["sint32"] = "int32_t "; ctype["float"] = "float "
    bytes_type["u128"] = "struct u128 "; bytes_type["text"] = bytes_type["blob"] = "struct bytes "
    bytes_type["tokens"] = "struct tokens "; bytes_type["u32s"] = "struct u32s "
    bytes_type["f32s"] = "struct f32s "; bytes_type["u128s"] = "struct u128s "
}

!begun { begun = /^package /; next }
/^$/ { note_count = 0; next }
/^ *\/\/ [0-9]+( to [0-9]+)?: / { next } # numbers kept free
/^ *\/\/ / { sub(/^ *\/\/ /, ""); note[++note_count] = $0; next }

/^enum [A-Za-z]+ \{$/ {
    enum = $2
    types = types comment("") "enum wire_" snake(enum) " {\n"
    first[enum] = ""
    next
}
/^message [A-Za-z]+ \{( +\/\/= .*)?$/ {
    if (match($0, /\/\/= .*/))
        annotation = substr($0, RSTART + 4)
    else
        annotation = ""
    name = $2
    message = snake(name)
    is_message[name] = 1
    struct_text = comment("") "struct wire_" message " {\n"
    row_text = ""
    last_number = 0
    has_check = annotation ~ /check$/
    if (match(annotation, /^kind [0-9]+/))
        kind_of[substr(annotation, 6, RLENGTH - 5) + 0] = message
    next
}
/^\}$/ && enum != "" { types = types "};\n\n"; enum = ""; next }
/^\}$/ && message != "" {
    types = types struct_text "};\n\n"
    if (has_check)
        checks = checks "int check_" message "(const void *message, struct error *err);\n"
    tables = tables "static const struct message_field " message "_fields[] = {\n" row_text "};\n" \
        "TABLE(" message ", " (has_check ? "check_" message : "NULL") ");\n\n"
    message = ""
    next
}
enum != "" && /^  [A-Z0-9_]+ = [0-9]+;/ {
    value = $3 + 0
    tail = $0
    sub(/^[^;]*; */, "", tail)
    read_tail(tail)
    if (value > 0 || annotation == "named")
        types = types comment("    ") "    WIRE_" $1 " = " value "," remark "\n"
    if (value > 0 && first[enum] == "")
        first[enum] = "WIRE_" $1
    last[enum] = "WIRE_" $1
    next
}
message != "" && /^  (repeated )?[A-Za-z0-9]+ [a-z0-9_]+ = [0-9]+;/ {
    repeated = $1 == "repeated"
    type = repeated ? $2 : $1
    field = repeated ? $3 : $2
    number = (repeated ? $5 : $4) + 0
    if (number <= last_number)
        fail("field numbers rise")
    last_number = number
    tail = $0
    sub(/^[^;]*; */, "", tail)
    read_tail(tail)
    if (repeated)
        list_field(type)
    else if (type == "bytes")
        bytes_field()
    else if (type == "uint32")
        number_field(type, "ANY32", "U32")
    else if (type == "uint64")
        number_field(type, "ANY64", "U64")
    else if (type == "sint32")
        number_field(type, "ANYI32", "I32")
    else if (type == "bool" || type == "float")
        number_field(type, type == "bool" ? "BOOL" : "F32", "")
    else if (type in first) {
        member("enum wire_" snake(type) " ", field)
        row("ENUM", ", " (annotation == "or none" ? "0" : first[type]) ", " last[type])
    } else if (type in is_message) {
        member("struct wire_" snake(type) " ", field)
        row("STRUCT", ", " snake(type))
    } else
        fail("no such type")
    next
}
{ fail("not understood") }

END {
    if (failed)
        exit 1
    print "/* Made from proto/trireme.proto by proto/generate.awk. */"
    if (want == "checks")
        printf "%s", checks
    else if (want == "tables")
        printf "%s", tables
    else {
        print "/* Which message a frame holds. Values are the wire's: never reuse one. */\nenum wire_kind {"
        for (kind = 1; kind in kind_of; kind++)
            printf "    WIRE_%s = %d,\n", toupper(kind_of[kind]), kind
        print "    WIRE_KIND_MAX\n};\n\n/* Each message that a frame may hold: X(kind, name). */\n#define WIRE_MESSAGES(X) \\"
        for (kind = 1; kind in kind_of; kind++)
            printf "    X(WIRE_%s, %s)%s\n", toupper(kind_of[kind]), kind_of[kind], kind + 1 in kind_of ? " \\" : ""
        printf "\n%s", types
    }
}
