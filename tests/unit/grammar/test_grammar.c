/* Constraints and the texts they accept, by bytes and by masks. */
#include "base/fsutil.h"
#include "check.h"
#include "formats/json.h"
#include "grammar/grammar.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static int compile(enum grammar_kind kind, const char *text, struct program *p, struct error *err) {
    struct grammar_source source = {.kind = kind, .text = bytes_str(text)};
    return grammar_compile(&source, NULL, p, err);
}

static bool accepts(const struct program *p, struct bytes text) {
    struct grammar_run *run = grammar_run_new(p, NULL);
    struct matcher *m = matcher_new(run);
    bool fits = matcher_bytes(m, text) && matcher_may_end(m);
    matcher_free(&m);
    grammar_run_free(&run);
    return fits;
}

/* A row: a constraint, texts it accepts, texts it refuses; "" ends a list, "~" is the empty text. */
struct row {
    enum grammar_kind kind;
    const char *source;
    const char *good[16], *bad[16];
};

static const struct row ROWS[] = {
    {GRAMMAR_REGEX, "a+b?", {"a", "aaab"}, {"~", "b", "abb"}},
    {GRAMMAR_REGEX, "(?:x|yz){2,3}", {"xx", "xyzx"}, {"x", "xxxx", "xy"}},
    {GRAMMAR_REGEX, "[^\\d\\s]\\u00e9.", {"x\xC3\xA9y"}, {"1\xC3\xA9y", "x\xC3\xA9\n"}},
    {GRAMMAR_REGEX, "(?=.*1)(?!.*22)[12]{3}", {"121", "112"}, {"222", "122", "11"}},
    {GRAMMAR_REGEX, "^(?!-)[a-z-]{1,3}(?<!-)$", {"a", "a-b"}, {"-a", "a-", "~", "abcd"}},
    {GRAMMAR_REGEX, "a(?!b).*|.*(?<=x)y", {"a", "acb", "xy", "axy"}, {"ab", "abx", "y"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^(?!a)\"}",
     {"\"\"", "\"ba\""},
     {"\"a\"", "\"ab\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"a(?=b)|c(?!d)|(?<=e)f\"}",
     {"\"ab\"", "\"xabx\"", "\"ce\"", "\"cdc\"", "\"ef\""},
     {"\"ad\"", "\"cd\"", "\"f\""}},
    {GRAMMAR_REGEX, "^a|b$", {"a", "b"}, {"~", "ab", "c"}},
    {GRAMMAR_REGEX, "\\p{Lu}\\p{L}*", {"\xC3\x89t", "A"}, {"a", "A1"}},
    {GRAMMAR_REGEX, "(?is)a[b-d].[^e]", {"aB\nx", "ADxy"}, {"aBxE", "aexx"}},
    {GRAMMAR_JSON_SCHEMA, "{\"propertyNames\":false}", {"{}", "1"}, {"{\"\":1}", "{\"a\":1}"}},
    {GRAMMAR_JSON_SCHEMA, "{\"propertyNames\":{\"type\":\"null\"}}", {"{}", "1"}, {"{\"a\":1}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"propertyNames\":{\"not\":{\"enum\":[\"a\",\"b\",1]},\"anyOf\":[{\"maxLength\":1},"
     "{\"$ref\":\"#/$defs/x\"}]},\"$defs\":{\"x\":{\"pattern\":\"^x\"}}}",
     {"{\"c\":1}", "{\"xyz\":1,\"\":2}"},
     {"{\"a\":1}", "{\"c\":1,\"b\":2}", "{\"cd\":1}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"propertyNames\":{\"oneOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"},{\"const\":\"c\"},"
     "{\"const\":1}]}}",
     {"{\"a\":1}", "{\"b\":1,\"c\":2}"},
     {"{\"ab\":1}", "{\"d\":1}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"propertyNames\":{\"if\":{\"pattern\":\"^a\"},\"then\":{\"maxLength\":2},\"else\":{\"enum\":"
     "[\"b\"]}}}",
     {"{\"ax\":1}", "{\"b\":1}"},
     {"{\"axx\":1}", "{\"c\":1}"}},
    /* text that goes on but for some bytes, for some bytes only, or for so many characters */
    {GRAMMAR_REGEX, "(/[^/]+)+", {"/a b/c", "/\xC3\xA9"}, {"~", "a/", "//", "/a/"}},
    {GRAMMAR_REGEX, "[a-z]+(-[a-z%]+)*", {"ab", "ab-c%"}, {"-", "a--b", "A"}},
    {GRAMMAR_REGEX, "[^%\"]*(%[0-9a-f]{2}[^%\"]*)*", {"~", "name%e9x"}, {"%", "%e", "a%xx"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^a.*$\",\"maxLength\":34}",
     {"\"a\"", "\"abc: h\xC3\xA9te\""},
     {"\"name\"", "\"a: longer than what may come behind it\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"contentEncoding\":\"base64\",\"minLength\":1}",
     {"\"eyJm\"", "\"eyJmbw==\"", "\"eyJmb28=\"", "\"a\\/+a\""},
     {"\"\"", "\"eyJmb\"", "\"ey%m\"", "\"eyJmbw=\"", "\"eyJm====\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"contentMediaType\":\"application/json\"}",
     {"1", "\" -1.5e3 \"", "\"{\\\"a\\\":[1,{}],\\\"b\\\" : \\\"x\\\"}\"", "\"[[[],{ }],null]\""},
     {"\"\"", "\"{:}\"", "\"{a:1}\"", "\"[1,]\"", "\"01\"", "\"'a'\"", "\"[[[[]]]]\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"time\"}",
     {"\"23:59:60Z\"", "\"23:59:60.5+00:00\"", "\"08:30:06.28-08:00\""},
     {"\"23:59:60+01:00\"", "\"22:59:60Z\"", "\"08:30:06\"", "\"24:00:00Z\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"uri-template\"}",
     {"\"\"", "\"http://e.org/{term:1}/{+a,b.c*}{?q}\"", "\"a'b%20\""},
     {"\"{a,,b}\"", "\"{v:0}\"", "\"{v:10000}\"", "\"{a..b}\"", "\"{var=def}\"", "\"{,+var}\"",
      "\"{term\"", "\"%2\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"email\"}",
     {"\"joe@example.com\"", "\"a.b+c@x-y.org\"", "\"\\\"joe bloggs\\\"@example.com\"",
      "\"\\\"a\\\\\\\"b\\\"@e.org\"", "\"j@[127.0.0.1]\"", "\"j@[IPv6:::1]\""},
     {"\"joe\"", "\".joe@e.org\"", "\"joe@\"", "\"joe@-e.org\"", "\"j@[127.0.0.300]\"",
      "\"\\\"a\\\"b@e.org\"", "\"a@b@c\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"idn-email\"}",
     {"\"실례@실례.테스트\"", "\"a@b.c\""},
     {"\"2962\"", "\"user＠example.com\"", "\"실례@\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"idn-hostname\"}",
     {"\"실례.테스트\"", "\"l·l\"", "\"ab-c。d\"", "\"α͵β\"", "\"א׳ב\""},
     {"\"\"", "\".\"", "\"-a\"", "\"a-\"", "\"a..b\"", "\"〮a\"", "\"a·l\"", "\"·l\"", "\"α͵S\"",
      "\"A׳ב\"", "\"ـߺ\"", "\"a b\"", "\"̀a\"", "\"a。\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"uri\"}",
     {"\"http://u:p@e.org:80/a//b?q=/?#f/?\"", "\"urn:a:b\"", "\"http://[::1]/\"",
      "\"http://[v1.a:b]\"", "\"file:///x\"", "\"a:\"", "\"mailto:x@y.z\"", "\"http://e.org?\""},
     {"\"//e.org\"", "\"/a\"", "\"http://[@e.org/t\"", "\"http://e.org:a/\"",
      "\"http://[::ffff:01.2.3.4]\"", "\"http:/[::1]\"", "\"http://a@b@c/\"", "\"1a:b\"",
      "\"http://e.org/%1\"", "\"a:#x#y\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"uri-reference\"}",
     {"\"\"", "\"/a/b\"", "\"a/b:c\"", "\"//e.org:1/p\"", "\"?q\"", "\"#f\"", "\"a:b\""},
     {"\"/[::1]\"", "\"//e.org:abc/p\"", "\"//a@b@e.org/\"", "\"\\\\a\"", "\"#a\\\\b\"", "\"%\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"iri\"}",
     {"\"http://ƒøø.ßår/?∂éœ=πîx#πîüx\"", "\"urn:é\""},
     {"\"âππ\"", "\"/abc\"", "\"\\\\\\\\WINDOWS\\\\filëßåré\"", "\"http://2001:0db8:85a3::7334:x\"",
      "\"http://e.org/ a\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"iri-reference\"}",
     {"\"âππ\"", "\"/é\""},
     {"\"#ƒräg\\\\mênt\"", "\"é e\""}},
    {GRAMMAR_JSON_SCHEMA, "{\"contentMediaType\":\"text/html\"}", {"\"<\""}, {"\"<"}},
    /* numbers with exponents, as programs write them, beside bounds */
    {GRAMMAR_JSON_SCHEMA,
     "{\"exclusiveMinimum\":0,\"maximum\":2.5e3}",
     {"1e-07", "2.5E+3", "2.50e3", "9.99e2", "1e0", "9e-0", "2.4999e03", "\"1e9\""},
     {"0", "-1e-07", "2.51e3", "2.501E3", "1e4", "1e+40", "3e3"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"minimum\":-1.25e-3,\"exclusiveMaximum\":-1e-10}",
     {"-0.00125", "-1.25e-3", "-1.25E-03", "-2e-10", "-1.000001e-10", "-9e-4"},
     {"-1.26e-3", "-1e-10", "-1.0e-010", "-9e-11", "1e-5", "-1e0"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"minimum\":-1.7976931348623157e308,\"maximum\":1.7976931348623157e308}",
     {"1e308", "-1.7976931348623157e+308", "0.5"},
     {"1.8e308", "-1.7976931348623158e308", "1e309"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"integer\",\"multipleOf\":0.5,\"minimum\":2}",
     {"1e308", "2.0e1", "2e+00", "2"},
     {"2.55e1", "1e0", "1e-1", "2.5e0", "2.5"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"number\",\"multipleOf\":2.5e-7}",
     {"1e-05", "1e-4", "5e-06", "1e22"},
     {"1e-8", "2.51e-7", "1e-07"}},
    /* values of an enum are tested by expressions that are made meanwhile */
    {GRAMMAR_JSON_SCHEMA,
     "{\"allOf\":[{\"enum\":[{\"a\":1},{\"a\":5}]},{\"not\":{\"not\":{\"properties\":{\"a\":{\"maximum\":3,"
     "\"type\":\"number\"}},\"type\":\"object\"}}}]}",
     {"{\"a\":1}"},
     {"{\"a\":5}", "{}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[{\"a\":1},{\"a\":4},{\"a\":5},{\"a\":10}],"
     "\"properties\":{\"a\":{\"oneOf\":[{\"minimum\":5},{\"multipleOf\":2}]}}}",
     {"{\"a\":4}", "{\"a\":5}"},
     {"{\"a\":1}", "{\"a\":10}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[1,4,5,10],\"anyOf\":[{\"minimum\":5},{\"multipleOf\":2}],\"not\":{\"const\":10}}",
     {"4", "5"},
     {"1", "10"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[{\"a\":1},{\"a\":\"x\"},{\"b\":1},{\"ab\":1},{\"ab\":null},{}],"
     "\"properties\":{\"a\":{\"type\":\"integer\"}},\"patternProperties\":{\"^ab\":{\"type\":\"null\"}},"
     "\"additionalProperties\":false}",
     {"{\"a\":1}", "{\"ab\":null}", "{}"},
     {"{\"a\":\"x\"}", "{\"b\":1}", "{\"ab\":1}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[{},{\"a\":1},{\"a\":1,\"b\":2},{\"a\":1,\"b\":2,\"c\":3},{\"b\":2,\"c\":3}],"
     "\"required\":[\"a\"],\"minProperties\":2,\"maxProperties\":2}",
     {"{\"a\":1,\"b\":2}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3}", "{\"b\":2,\"c\":3}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[[],[1],[1,\"x\"],[1,2],[\"x\",\"x\"],[1,\"x\",\"y\"]],"
     "\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"},\"minItems\":1,"
     "\"maxItems\":2}",
     {"[1]", "[1,\"x\"]"},
     {"[]", "[1,2]", "[\"x\",\"x\"]", "[1,\"x\",\"y\"]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$ref\":\"#/$defs/a~1b~0%25~\",\"$defs\":{\"a/b~%~\":{\"type\":\"null\"}}}",
     {"null"},
     {"1"}},
    {GRAMMAR_REGEX, "(?i)[a]z@\\[", {"aZ@[", "Az@["}, {"az`[", "az@{"}},
    {GRAMMAR_REGEX, "ab?[^x]*", {"a", "ab \"c"}, {"~", "abx"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"oneOf\":[{\"properties\":{\"na\":{\"type\":\"string\"}},\"required\":[\"na\"]},"
     "{\"properties\":{\"name\":{\"type\":\"null\"}},\"required\":[\"name\"]}]}",
     {"{\"na\": \"x\", \"b\": 1}", "{\"b\":1,\"name\":null}"},
     {"{\"b\":1}", "{\"na\":\"x\",\"name\":null}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"patternProperties\":{\"^abc.+$\":{\"type\":\"null\"},\"n\":{\"type\":\"number\"}}}",
     {"{\"abcd\":null,\"abc\":1}", "{\"name\":1}"},
     {"{\"abcd\":1}", "{\"name\":null}"}},
    /* by lark 1.3 with its Earley parser, all of them */
    {GRAMMAR_LARK,
     "?start: sum | NAME \"=\" sum -> assign // two\n?sum: product\n  | sum \"+\" product -> add\n"
     "?product: atom | product \"*\" atom\n?atom: NUMBER | \"-\" atom | NAME | \"(\" sum \")\"\n"
     "%import common.CNAME -> NAME\n%import common.NUMBER\n%ignore / +/",
     {"1+2", "x = 3 * (4+y)", "--2", "2*-3+.5e3", " 1 "},
     {"1+", "(1", "a=b=c", "1 2", "~"}},
    {GRAMMAR_LARK,
     "start: \"[\" _sep{item, \",\"} \"]\"\n_sep{x, s}: x (s x)*\n"
     "item: INT | \"(\" _sep{WORD, \";\"} \")\"\n%import common (INT, WORD)",
     {"[1,2]", "[(a;b),3]"},
     {"[]", "[a]", "[(a,b)]", "[1,2,]"}},
    {GRAMMAR_LARK,
     "start: A~2 B~1..3 \"c\"i \"d\"..\"f\" /g+[hx]/i* [\"!\"]\nA.2: \"a\"\nB: \"b\" | \"bb\"",
     {"aabcd", "aabbbcf", "aabCeGGH", "aabcdghgx!"},
     {"abcd", "aacd", "aabbbbbbbcd", "aabcg"}},
    /* llguidance's own */
    {GRAMMAR_LARK,
     "start: name[capture=\"n\"]{2,3} <|end|>\nname: %json {\"enum\": [1, \"}\"]} \";\"",
     {"1;\"}\";\xff<|end|>", "1;1;1;\xff<|end|>"},
     {"1;\xff<|end|>", "1;1;<|end|>", "2;2;\xff<|end|>"}},
    {GRAMMAR_GBNF,
     "root ::= \"a\" x* # end\nx ::= [0-9] | \"(\" x \")\"",
     {"a", "a12", "a((3))4"},
     {"~", "a(", "a()"}},
    {GRAMMAR_GBNF, "root ::= [^a-c\\n]{2} .\n", {"xyz", "d\xC3\xA9\n"}, {"axx", "xx"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"integer\",\"minimum\":-5,\"exclusiveMaximum\":12}",
     {"-5", "0", "11", "7.0", "-0"},
     {"-6", "12", "1.5", "05", "111"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"number\",\"minimum\":0.25,\"maximum\":10.5}",
     {"0.25", "10.5", "10.50", "3", "9.99"},
     {"0.2", "10.51", "-1", "11", "0"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"multipleOf\":0.25,\"type\":\"number\",\"minimum\":0}",
     {"0", "0.25", "1.500", "12"},
     {"0.3", "0.255", "1.", "-0.25"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"integer\",\"multipleOf\":7}",
     {"0", "7", "-14", "70.0"},
     {"8", "77.7", "-1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\\u00e9\\n\xC3\xA9\"", "\"\\ud83d\\ude00x\""},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\"", "\"a\nb\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"[Hh]otel Paris\"}",
     {"\"hotel Paris\"", "\"a\xE2\x80\xA8 hohotel Paris \\n\xC3\xA9\""},
     {"\"\"", "\"Hotel\"", "\"hotel  Paris\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^.*hot.*$\"}",
     {"\"hot\"", "\"\xE2\x80\x94 hohot\xF0\x9F\x98\x80\""},
     {"\"ho\"", "\"\xE2\x80\xA8hot\"", "\"\\nhot\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^[^\\uD7FF]*$\"}",
     {"\"hot\"", "\"\xE2\x80\x94\""},
     {"\"\xED\x9F\xBF\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^[ab]+$\",\"maxLength\":2}",
     {"\"a\"", "\"ab\""},
     {"\"\"", "\"abb\"", "\"c\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"format\":\"date\",\"type\":\"string\"}",
     {"\"2024-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"1999-13-01\"", "\"x\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[1,\"b\",null,{\"a\":[2]}]}",
     {"1", "1.0", "\"b\"", "null", "{ \"a\" : [ 2 ] }"},
     {"2", "\"c\"", "{}", "{\"a\":[3]}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},"
     "\"required\":[\"a\"],\"additionalProperties\":false}",
     {"{\"a\":1}", "{\"b\":[],\"a\":1}", "{ \"a\" : 1 , \"b\" : {} }"},
     {"{}", "{\"b\":1}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"c\":1}", "{\"a\":1,}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"properties\":{\"a\":{\"type\":\"null\"}},\"patternProperties\":{\"^x\":"
     "{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"boolean\"}}",
     {"{\"a\":null,\"x1\":2,\"y\":true}", "3"},
     {"{\"a\":1}", "{\"x\":true}", "{\"ab\":null}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",1]},\"uniqueItems\":true,\"maxItems\":2}",
     {"[]", "[\"b\"]", "[1,\"b\"]", "[ \"b\" , \"a\" ]"},
     {"[\"a\",\"a\"]", "[1,1.0]", "[\"a\",\"b\",1]", "[\"c\"]", "[\"a\",]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[[1,1],[1,2],{\"xa\":1},{\"xa\":true}],\"uniqueItems\":true,"
     "\"patternProperties\":{\"^x\":{\"type\":\"integer\"}}}",
     {"[1,2]", "{\"xa\":1}"},
     {"[1,1]", "{\"xa\":true}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$ref\":\"#/$defs/b\",\"$defs\":{\"a\":{\"properties\":{\"a\":{\"type\":\"null\"}}},"
     "\"b\":{\"type\":\"object\",\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"properties\":{\"b\":true},"
     "\"if\":{\"required\":[\"b\"]},\"then\":{\"properties\":{\"c\":true}},"
     "\"unevaluatedProperties\":{\"const\":7}}}}",
     {"{\"a\":null,\"b\":2}", "{\"b\":1,\"c\":3}", "{\"c\":7}", "{\"x\":7}"},
     {"{\"a\":1}", "{\"c\":3}", "{\"x\":8}", "{\"b\":1,\"d\":3}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"prefixItems\":[{\"type\":\"null\"}],\"allOf\":[{\"prefixItems\":[true,{\"const\":2}]}],"
     "\"unevaluatedItems\":{\"type\":\"boolean\"}}",
     {"[]", "[null,2]", "[null,2,true,false]"},
     {"[null,true]", "[null,2,2]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$dynamicRef\":\"#n\",\"$defs\":{\"n\":{\"$dynamicAnchor\":\"n\",\"type\":\"array\","
     "\"items\":{\"$dynamicRef\":\"#n\"}}}}",
     {"[]", "[[],[[]]]"},
     {"1", "[1]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"minProperties\":1,\"maxProperties\":2,\"type\":\"object\"}",
     {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"a\":1,\"b\":2,\"c\":3}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]}}",
     {"{}", "{\"b\":1}", "{\"a\":1,\"b\":2}"},
     {"{\"a\":1}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"},"
     "\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[ 1 , \"a\", \"b\" ]"},
     {"[]", "[\"a\"]", "[1,2]", "[1,\"a\",\"b\",\"c\"]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"contains\":{\"const\":5}}",
     {"[5]", "[1,5,2]"},
     {"[]", "[1]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"contains\":{\"const\":5},\"minContains\":2,\"maxItems\":4}",
     {"[5,5]", "[1,5,2,5]", "[5,5,5]", "[ 5 , 1 , 5.0 ]"},
     {"[]", "[5]", "[1,5,2]", "[1,5,2,5,3]", "[1,2,3", "[1,2,3]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":0,\"maxContains\":1,"
     "\"minItems\":1}",
     {"[1]", "[\"a\"]", "[1,\"a\",2,null]", "[1,2,3,4,5,6]"},
     {"[]", "[\"a\",\"b\"]", "[1,\"a\",2,\"b\"]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
     "\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":5,\"type\":\"number\"},"
     "\"maxContains\":2,\"maxItems\":4}",
     {"[5]", "[1,\"a\",7]", "[5,\"a\",7,1]"},
     {"[1]", "[5,7]", "[5,\"a\",7,9]", "[1,\"a\",1,1]", "[5,\"a\",1,1,1]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"contains\":{\"type\":"
     "\"null\"},\"maxContains\":3},{\"const\":1}]}",
     {"1"},
     {"[", "[]", "[\"a\"]"}},
    /* a number is the same however it is written */
    {GRAMMAR_JSON_SCHEMA,
     "{\"contains\":{\"const\":1},\"maxContains\":1,\"items\":{\"type\":\"number\"}}",
     {"[1]", "[2,1.0]", "[1.00,-1,10,0.1]", "[1.5,1]", "[0,1,-0]", "[11,1]"},
     {"[1,1]", "[1,1.0]", "[1,1e0]", "[1.00,2,1]", "[1,0.1e1]", "[2,1.5]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"contains\":{\"enum\":[0,2.5e0,\"a\"]},\"maxContains\":1,\"minContains\":0}",
     {"[]", "[-1,2.4,2.51]", "[0,25,\"b\"]", "[null,\"a\"]", "[0.5,0]"},
     {"[0,-0]", "[0,2.5]", "[\"a\",2.50]", "[0.0,0]", "[-0.0,\"a\"]", "[0,25e-1]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"integer\"}",
     {"1", "-0", "1.0", "1e2", "1.00E+02", "1e300", "-7e0"},
     {"1.5", "1e-2", "01", "1e", "1.e2", "0.5e0", "1e+"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"const\":1}",
     {"1", "1.0", "1e0", "1.00E+00", "0.1e1", "10e-1", "100.0e-02", "0.001e3", "1000e-3"},
     {"10", "-1", "1e1", "0.1", "1.", "01", "1.01", "10e-2", "1e", "0.1e-1", "1e00001"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"const\":-2.5e0}",
     {"-2.5", "-2.50", "-25e-1", "-0.25E1", "-2500e-3"},
     {"2.5", "-2.05", "-25", "-2.5e1", "-25e1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[1e2,0,1.5e20,1e-7]}",
     {"100", "1e2", "100.0", "10e1", "0", "-0", "0.0e9", "0e-5", "1.5e20", "1.5E+20", "15e19",
      "150000000000000000000", "0.0000001", "1e-7", "1.0e-07", "0.1e-6"},
     {"10", "1000", "1e3", "15e20", "1e-8", "1e7", "0.1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[1e2,7,5.0,4,499e-2,50e-1],\"minimum\":5}",
     {"100", "7", "5", "5.0", "1e2"},
     {"4", "4.99", "499e-2"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[1e2,75,1.5e1,10.0,30e-1],\"multipleOf\":10,\"maximum\":1e3}",
     {"100", "10"},
     {"75", "15", "3"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"integer\",\"not\":{\"enum\":[-3,9007199254740993,1e2]},\"maximum\":"
     "9007199254740994}",
     {"-2", "3", "-30", "9007199254740992", "9007199254740994", "101"},
     {"-3", "-3.0", "9007199254740993", "100", "100.0", "9007199254740995"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"next\":"
     "{\"$ref\":\"#/$defs/n\"}},\"additionalProperties\":false}}}",
     {"{}", "{\"next\":{\"next\":{}}}"},
     {"{\"next\":1}", "{\"next\":{\"x\":1}}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"type\":\"object\"}",
     {"{\"a\":1}", "{\"b\":1,\"c\":2}"},
     {"{}", "{\"a\":1,\"b\":2}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}},\"required\":[\"k\"]},\"then\":"
     "{\"required\":[\"v\"]},\"else\":{\"required\":[\"w\"]},\"type\":\"object\"}",
     {"{\"k\":\"x\",\"v\":1}", "{\"w\":1}", "{\"k\":\"y\",\"w\":1}"},
     {"{\"k\":\"x\"}", "{\"k\":\"x\",\"w\":1}", "{}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"enum\":[\"a\",null]}}",
     {"\"b\"", "1", "[]"},
     {"\"a\"", "null"}},
    /* references are resolved against the address of the schema that they stand in */
    {GRAMMAR_JSON_SCHEMA,
     "{\"$id\":\"http://h/a/\",\"properties\":{\"x\":{\"$ref\":\"b/i\"},\"y\":{\"$ref\":\"i\"}},"
     "\"$defs\":{\"b\":{\"$id\":\"b/\",\"$defs\":{\"i\":{\"$id\":\"i\",\"type\":\"null\"}}},"
     "\"i\":{\"$id\":\"i\",\"type\":\"boolean\"}}}",
     {"{\"x\":null,\"y\":true}"},
     {"{\"x\":true}", "{\"y\":null}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$id\":\"http://h/a\",\"properties\":{\"x\":{\"$ref\":\"/c/./d/../e?q\"},"
     "\"y\":{\"$ref\":\"//g/h\"},\"z\":{\"$ref\":\"http://h/c/e?q#n\"}},\"$defs\":{"
     "\"e\":{\"$id\":\"c/e?q\",\"type\":\"null\",\"$defs\":{\"n\":{\"$anchor\":\"n\","
     "\"const\":1}}},\"h\":{\"$id\":\"//g/h\",\"const\":2}}}",
     {"{\"x\":null,\"y\":2,\"z\":1}"},
     {"{\"x\":1}", "{\"y\":1}", "{\"z\":null}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"properties\":{\"x\":{\"$ref\":\"urn:n:1#/$defs/i\"},\"y\":{\"$ref\":\"#/$defs/i\"}},"
     "\"$defs\":{\"u\":{\"$id\":\"urn:n:1\",\"$defs\":{\"i\":{\"$ref\":\"#a\"},"
     "\"j\":{\"$anchor\":\"a\",\"type\":\"null\"}}},\"i\":{\"$anchor\":\"a\",\"const\":1}}}",
     {"{\"x\":null,\"y\":1}"},
     {"{\"x\":1}", "{\"y\":null}"}},
    /* what an enum or an unknown keyword holds has no address */
    {GRAMMAR_JSON_SCHEMA,
     "{\"properties\":{\"x\":{\"enum\":[{\"$id\":\"u\"}]},\"z\":{\"q\":{\"$id\":\"u\"}},"
     "\"y\":{\"$ref\":\"u\"}},\"$defs\":{\"u\":{\"$id\":\"u\",\"type\":\"null\"}}}",
     {"{\"x\":{\"$id\":\"u\"},\"y\":null}"},
     {"{\"y\":1}", "{\"y\":{}}"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"id\":\"http://h/a\",\"items\":"
     "{\"$ref\":\"http://h/b#n\"},\"definitions\":{\"b\":{\"id\":\"b#n\",\"type\":\"null\"}}}",
     {"[]", "[null]"},
     {"[1]"}},
    /* the document's own anchor comes first */
    {GRAMMAR_JSON_SCHEMA,
     "{\"$id\":\"http://h/a\",\"$dynamicAnchor\":\"n\",\"type\":\"object\",\"properties\":{\"x\":"
     "{\"$ref\":\"b\"}},\"additionalProperties\":false,\"$defs\":{\"b\":{\"$id\":\"b\","
     "\"$dynamicAnchor\":\"n\",\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#n\"}}}}",
     {"{\"x\":[{}]}", "{\"x\":[]}"},
     {"{\"x\":[[]]}"}},
    /* formats are annotations where the dialect says so */
    {GRAMMAR_JSON_SCHEMA,
     "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"format\":\"ipv4\","
     "\"type\":\"string\"}",
     {"\"a\"", "\"1.2.3.4\""},
     {"1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"format\":\"ipv4\","
     "\"type\":\"string\"}",
     {"\"1.2.3.4\""},
     {"\"a\"", "1"}},
    /* before values that are listed, all else is asked as it stands */
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[{\"a\":1},{\"b\":1},{\"a\":1,\"b\":1},{\"b\":[1,\"x\"]},{},[3],[1,2],4],"
     "\"not\":{\"patternProperties\":{\"a\":{\"multipleOf\":2}}},\"propertyNames\":{\"maxLength\":1},"
     "\"dependentRequired\":{\"a\":[\"b\"]},\"if\":{\"required\":[\"a\"]},\"then\":"
     "{\"contains\":false}}",
     {"{\"a\":1,\"b\":1}"},
     {"{\"a\":1}", "{\"b\":1}", "{}", "[3]", "4"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"enum\":[{\"a\":1},{\"a\":1,\"b\":1},{\"c\":1},[1,\"x\"],[1]],\"anyOf\":[{\"properties\":"
     "{\"a\":true}},{\"contains\":{\"type\":\"string\"}}],\"unevaluatedProperties\":false,"
     "\"prefixItems\":[true],\"unevaluatedItems\":{\"const\":\"y\"}}",
     {"{\"a\":1}", "[1,\"x\"]", "[1]"},
     {"{\"a\":1,\"b\":1}", "{\"c\":1}"}},
    /* which branches exclude each other is found without the list that both stand beside */
    {GRAMMAR_JSON_SCHEMA,
     "{\"oneOf\":[false,{\"oneOf\":[true,{\"exclusiveMaximum\":-2.5,\"enum\":[false,null]}]}]}",
     {"true", "12", "-3"},
     {"null", "false"}},
    /* what is searched for in a text costs no states for each set of words that were there */
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"alpha|bravo|charlie|delta|echo|foxtrot|golf|hotel|india|juliett|kilo|lima|"
     "mike|november|oscar|papa|quebec|romeo|sierra|tango\"}",
     {"\"a golf b\"", "\"tango\"", "\"echoecho\""},
     {"\"gol\"", "\"\"", "1"}},
    {GRAMMAR_REGEX,
     "(?!x)a|b(?=c)cd|ef|(g|h)(?<!g)",
     {"a", "bcd", "ef", "h"},
     {"g", "b", "cd", "bd"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"pattern\":\"^a|b$|c(?!d)|e(?=f)\",\"type\":\"string\"}",
     {"\"ax\"", "\"xb\"", "\"xcx\"", "\"efa\"", "\"xef\""},
     {"\"xa\"", "\"bx\"", "\"cd\"", "\"eg\"", "\"\""}},
    /* nearly any text, but not two of these */
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"oneOf\":[{\"pattern\":\"abba\"},{\"pattern\":\"bob\"},{\"pattern\":\"aaba\"}]}",
     {"\"abba\"", "\"xbobabb\"", "\"bob bob\"", "\"aaba\""},
     {"\"\"", "\"abbabob\"", "\"aabba bob\"", "\"bobaaba\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"not\":{\"pattern\":\"abab|ba a|aé\"}}",
     {"\"aba\"", "\"ba\"", "\"é\""},
     {"\"xabab\"", "\"ba a\"", "\"aé\""}},
    /* what is turned around */
    {GRAMMAR_JSON_SCHEMA, "{\"not\":{\"format\":\"ipv4\"}}", {"\"a\""}, {"1", "\"1.2.3.4\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"oneOf\":[{\"format\":\"ipv4\"},{\"format\":\"hostname\"}]}",
     {"\"a.b\""},
     {"\"1.2.3.4\"", "\"-\""}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"items\":{\"type\":\"null\"}}}",
     {"[1]", "[null,2]"},
     {"[]", "[null]", "1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"contains\":{\"const\":1}}}",
     {"[]", "[2]"},
     {"1", "[1]", "[2,1]"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}",
     {"{\"a\":1}"},
     {"{\"a\":1,\"b\":1}", "{}", "1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"if\":{\"type\":\"string\"},\"then\":{\"const\":\"a\"},\"else\":{\"const\":1}}}",
     {"\"b\"", "2"},
     {"\"a\"", "1"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"oneOf\":[{\"minimum\":2},{\"maximum\":4}]}}",
     {"3", "2", "\"a\""},
     {"1", "5"}},
    {GRAMMAR_JSON_SCHEMA,
     "{\"not\":{\"type\":\"null\",\"nullable\":true,\"x\":{}}}",
     {"1"},
     {"null"}},
    /* of nobody, so of no meaning */
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"string\",\"x-not-enum\":[\"a\"],\"x-not-pattern\":[\"b\"]}",
     {"\"a\"", "\"b\""},
     {"1"}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"sequence\",\"elements\":[{\"type\":\"until\",\"value\":\"</t>\"},"
     "{\"type\":\"json_schema\",\"json_schema\":{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":"
     "{\"type\":\"integer\"}}}}]}",
     {"</t>1", "a <</t </</t>23"},
     {"1", "</t></t>1", "</t>\"a\"", "a"}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"structural_tag\",\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\"],"
     "\"tags\":[{\"begin\":\"<f=x>\",\"content\":{\"type\":\"json_schema\",\"json_schema\":true},"
     "\"end\":\"</f>\"},{\"begin\":\"<f=y>\",\"content\":{\"type\":\"any_text\"},"
     "\"end\":[\"</f>\",\"</g>\"]}]}}",
     {"~", "hi <f", "a <f=x>[1]</f> b", "<f=y> < </</f>", "<f=x>1</f><f=y></g> <"},
     {"<f=", "<f=z></f>", "<f=x>[1</f>", "<f=x>1"}},
    {GRAMMAR_STRUCTURE, /* what is listed, and nothing else where nothing is said of others */
     "{\"type\":\"json_schema\",\"closed\":true,\"json_schema\":{\"properties\":{\"a\":{\"properties\":"
     "{\"x\":true}},\"b\":{\"type\":\"object\"},\"c\":{\"properties\":{\"x\":true},"
     "\"additionalProperties\":{\"type\":\"null\"}},\"d\":{\"properties\":{\"x\":true},"
     "\"patternProperties\":{\"^p\":true}}},\"required\":[\"r\"],\"allOf\":[{\"properties\":{\"e\":true}}]}}",
     {"{\"r\":1}", "{\"r\":1,\"a\":{\"x\":1}}", "{\"r\":1,\"b\":{\"any\":1}}", "{\"e\":0,\"r\":1}",
      "{\"r\":1,\"c\":{\"x\":1,\"y\":null}}", "{\"r\":1,\"d\":{\"x\":1,\"py\":1}}"},
     {"{}", "{\"r\":1,\"f\":1}", "{\"r\":1,\"a\":{\"y\":1}}", "{\"r\":1,\"c\":{\"y\":1}}",
      "{\"r\":1,\"d\":{\"y\":1}}"}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"json_schema\",\"json_schema\":{\"properties\":{\"a\":true}}}",
     {"{\"a\":1,\"b\":1}"},
     {"1,"}},
    {GRAMMAR_STRUCTURE, /* elements: a string stands bare, unless it reads like something else */
     "{\"type\":\"arguments\",\"before\":{\"type\":\"const_string\",\"value\":\"<\"},"
     "\"middle\":{\"type\":\"const_string\",\"value\":\">\"},"
     "\"after\":{\"type\":\"const_string\",\"value\":\"</>\"},\"stops\":[\"</>\"],"
     "\"json_schema\":{\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},"
     "\"m\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"s\"]}}",
     {"<s></>", "<s>5</ <</><n>5</>", "<s>a</><m>null</>", "<s>a</><m>\"5\"</>", "<s>a</><m>b</>"},
     {"~", "<n>5</>", "<s>a</><n>b</>", "<s>a</><m>5</>", "<s>a</></>", "<n>5</><s>a</>"}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"choice\",\"values\":[\"ab\",\"a\\\"\xC3\xA9\",\"\",\"ab\"]}",
     {"ab", "a\"\xC3\xA9", "~"},
     {"a", "abb", "ab\"", "\"ab\""}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"tags_with_separator\",\"separator\":\", \",\"at_least_one\":true,"
     "\"tags\":[{\"begin\":\"(\",\"content\":{\"type\":\"regex\",\"pattern\":\"[ab]+\"},"
     "\"end\":\")\"}]}",
     {"(a)", "(ab), (b)"},
     {"~", "(a),(b)", "(a), ", "()"}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"or\",\"elements\":[{\"type\":\"plus\",\"content\":{\"type\":\"const_string\","
     "\"value\":\"ab\"}},{\"type\":\"token\",\"value\":\"<|x|>\"},{\"type\":\"any_text\","
     "\"excludes\":[\"a\"]}]}",
     {"ab", "abab", "\xff<|x|>", "~", "xyz"},
     {"a", "xa", "aba", "\xff"}},
    {GRAMMAR_STRUCTURE,
     "{\"type\":\"structural_tag\",\"structures\":[{\"begin\":\"<f>\",\"schema\":"
     "{\"type\":\"null\"},\"end\":\"</f>\"}],\"triggers\":[\"<f>\"]}",
     {"a<f>null</f>b"},
     {"<f>1</f>"}},
};

TEST(constraints_accept_and_refuse) {
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct row *row = &ROWS[i];
        struct program p;
        struct error err;
        if (compile(row->kind, row->source, &p, &err)) {
            check_fail(__FILE__, __LINE__, "'%s' does not compile: %s", row->source, err.text);
            return;
        }
        for (size_t k = 0; k < ARRAY_LEN(row->good); k++)
            for (int bad = 0; bad < 2; bad++) {
                const char *text = bad ? row->bad[k] : row->good[k];
                if (text && accepts(&p, bytes_str(*text == '~' ? "" : text)) == (bad == 1)) {
                    check_fail(__FILE__, __LINE__, "'%s' %s '%s'", row->source,
                               bad ? "accepts" : "refuses", text);
                    program_release(&p);
                    return;
                }
            }
        program_release(&p);
    }
}

/* Ordered, as a worker compiles them: members as "properties" has them, optional ones may lack, others
 * come last. Else any order is accepted. */
TEST(members_come_in_the_order_of_the_schema) {
    static const char SCHEMA[] =
        "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"},"
        "\"c\":{\"type\":\"integer\"},\"d\":{\"type\":\"integer\"}},\"required\":[\"b\"]}";
    static const struct {
        const char *text;
        bool in_order, valid;
    } CASES[] = {
        {"{\"b\":1}", true, true},
        {"{\"a\":1,\"b\":1}", true, true},
        {"{\"b\":1,\"c\":1,\"d\":1}", true, true},
        {"{\"b\":1,\"d\":1}", true, true},
        {"{\"b\":1,\"x\":1}", true, true},
        {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"x\":1,\"y\":1}", true, true},
        {"{\"b\":1,\"a\":1}", false, true},
        {"{\"a\":1,\"c\":1,\"b\":1}", false, true},
        {"{\"c\":1,\"b\":1}", false, true},
        {"{\"b\":1,\"d\":1,\"c\":1}", false, true},
        {"{\"x\":1,\"b\":1}", false, true},
        {"{\"a\":1}", false, false},
        {"{\"b\":1,\"b\":1}", false, false},
        {"{}", false, false},
    };
    for (int ordered = 0; ordered < 2; ordered++) {
        struct grammar_source source = {
            .kind = GRAMMAR_JSON_SCHEMA, .text = bytes_str(SCHEMA), .ordered = ordered};
        struct program p;
        struct error err;
        EXPECT_EQ(grammar_compile(&source, NULL, &p, &err), 0);
        for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
            if (accepts(&p, bytes_str(CASES[i].text)) !=
                (ordered ? CASES[i].in_order : CASES[i].valid))
                check_fail(__FILE__, __LINE__, "%s%s", CASES[i].text, ordered ? ", ordered" : "");
        program_release(&p);
    }
}

TEST(what_cannot_be_held_is_refused_by_name) {
    static const struct {
        enum grammar_kind kind;
        const char *source, *word;
    } REFUSED[] = {
        {GRAMMAR_JSON_SCHEMA, "{\"uniqueItems\":true}", "uniqueItems"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"other.json\"}", "other.json"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"#n\",\"x\":{\"$anchor\":\"n\"}}", "#n"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"$ref\":\"u\",\"$defs\":{\"a\":{\"$id\":\"u\"},\"b\":{\"$id\":\"u\",\"not\":{}}}}",
         "'u'"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"items\":{\"$ref\":\"#/definitions/a\",\"maxItems\":2},\"definitions\":{\"a\":{}}}",
         "\"$ref\" beside \"maxItems\""},
        {GRAMMAR_JSON_SCHEMA, "{\"$schema\":\"http://h/mine\",\"type\":\"null\"}", "$schema"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"anyOf\":[{\"required\":[\"a\"]},{}],\"unevaluatedProperties\":false}", "unevaluated"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"allOf\":[{\"properties\":{\"a\":true}},{\"unevaluatedProperties\":false}]}",
         "unevaluated"},
        {GRAMMAR_JSON_SCHEMA, "{\"contains\":{\"multipleOf\":3},\"maxContains\":1}", "maxContains"},
        {GRAMMAR_JSON_SCHEMA, "{\"contains\":{\"const\":1},\"minContains\":100,\"maxItems\":200}",
         "contains"},
        {GRAMMAR_JSON_SCHEMA, "{\"contains\":{\"type\":\"null\"},\"unevaluatedItems\":false}",
         "unevaluatedItems"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"$dynamicRef\":\"b#a\",\"$defs\":{\"b\":{\"$id\":\"b\",\"$dynamicAnchor\":\"a\"},"
         "\"c\":{\"$id\":\"c\",\"$dynamicAnchor\":\"a\",\"type\":\"null\"}}}",
         "$dynamicRef"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\":\"thing\"}", "type"},
        {GRAMMAR_JSON_SCHEMA, "{\"allOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}",
         "no text satisfies"},
        {GRAMMAR_JSON_SCHEMA, "[", "byte"},
        {GRAMMAR_REGEX, "a(b", "group"},
        {GRAMMAR_REGEX, "(a)\\1", "backreference"},
        {GRAMMAR_REGEX, "((?<=a)b)", "lookbehind"},
        {GRAMMAR_REGEX, "a(?!b)c(?<!d)", "lookbehind"},
        {GRAMMAR_REGEX, "(a(?!b))*", "lookahead inside a group"},
        {GRAMMAR_REGEX, "(a{1,1000}){1,1000}", "states"},
        {GRAMMAR_REGEX, "(a|b)*a(a|b){40}", "states"},
        {GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"", "left recursion"},
        {GRAMMAR_GBNF, "root ::= \"a\" root", "no text satisfies"},
        {GRAMMAR_GBNF, "root ::= x", "'x'"},
        {GRAMMAR_GBNF, "x ::= \"a\"", "'root'"},
        {GRAMMAR_LARK, "start: a\na: b\nb: a \"x\" | \"y\"", "left recursion"},
        {GRAMMAR_LARK, "start: start \"a\"", "no text satisfies"},
        {GRAMMAR_LARK, "start: x", "'x'"},
        {GRAMMAR_LARK, "x: \"a\"", "'start'"},
        {GRAMMAR_LARK, "start: \"a\"\n\n%import python.NAME", "in line 3"},
        {GRAMMAR_GBNF, "root ::= x\n# two\nx ::= [a", "in line 3"},
        {GRAMMAR_LARK, "start: a{\"x\"}\na{p}: p a{p}", "no text satisfies"},
        {GRAMMAR_LARK, "start: a{\"x\"}\na{p}: p a{p p} | p", "templates"},
        {GRAMMAR_LARK, "start: x[max_tokens=3]\nx: \"a\"", "attribute"},
        {GRAMMAR_LARK, "start: /a/x", "flag"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"arguments\",\"json_schema\":{\"minProperties\":1}}",
         "minProperties"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"arguments\",\"json_schema\":{\"required\":[\"a<b\"]}}",
         "a<b"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"nope\"}", "'nope'"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"const_string\"}", "'value'"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"sequence\",\"elements\":3}", "'elements'"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"choice\",\"values\":[\"a\",1]}", "list of texts"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"choice\",\"values\":[]}", "no text satisfies"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"until\",\"value\":\"\"}", "empty"},
        {GRAMMAR_STRUCTURE, "{\"type\":\"json_schema\",\"json_schema\":{\"uniqueItems\":true}}",
         "uniqueItems"},
    };
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        struct program p;
        struct error err;
        int rc = compile(REFUSED[i].kind, REFUSED[i].source, &p, &err);
        if (!rc || !strstr(err.text, REFUSED[i].word)) {
            check_fail(__FILE__, __LINE__, "'%s': %s", REFUSED[i].source,
                       rc ? err.text : "compiles");
            program_release(&p);
            return;
        }
    }
}

/* ---- automata ---- */

/* The smallest dfa of a text of n symbols, or of any number of such texts with another symbol in
 * between: at most `most` edges are looked at. */
static void expect_chain_looks(uint32_t n, bool again, uint64_t most) {
    struct nfa chain = {0};
    struct dfa d;
    struct error err;
    struct fa_fuel fuel = {.states = 100000};
    for (uint32_t i = 0; i <= n; i++)
        (void)nfa_state(&chain);
    for (uint32_t i = 0; i < n; i++)
        nfa_edge(&chain, i, 'a', 'a', i + 1);
    chain.labels.items[n] = 0;
    if (again)
        nfa_edge(&chain, n, 'b', 'b', 0);
    EXPECT(!dfa_from_nfa(&chain, 0, &fuel, &d, &err));
    EXPECT_EQ(d.states.count, n + 1);
    dfa_release(&d);
    nfa_release(&chain);
    EXPECT(fuel.looked <= most);
}

TEST(smallest_automata_of_long_texts_cost_their_length) {
    for (int again = 0; again < 2; again++)
        expect_chain_looks(8000, again, 8000 * 8);
}

enum { FA_STATES = 8, FA_SYMBOLS = 3 };

static void random_nfa(struct nfa *n) {
    for (int i = 0; i < FA_STATES; i++) {
        (void)nfa_state(n);
        n->labels.items[i] = check_random() % 3 ? FA_NONE : (uint32_t)(check_random() % 2);
    }
    for (int i = 0; i < 12; i++) {
        uint32_t lo = (uint32_t)(check_random() % FA_SYMBOLS),
                 hi = lo + (uint32_t)(check_random() % (FA_SYMBOLS - lo));
        nfa_edge(n, (uint32_t)(check_random() % FA_STATES), lo, hi,
                 (uint32_t)(check_random() % FA_STATES));
    }
}

/* Marks the pairs of states that a text tells apart; FA_NONE as a state is the last one. */
static void tell_apart(const struct dfa *d, size_t count, bool *apart) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < count * count; i++) {
            size_t a = i / count, b = i % count;
            bool differs = (a + 1 < count ? d->states.items[a].label : FA_NONE) !=
                           (b + 1 < count ? d->states.items[b].label : FA_NONE);
            for (uint32_t c = 0; c < FA_SYMBOLS && !differs; c++) {
                size_t x = a + 1 < count ? dfa_step(d, (uint32_t)a, c) : FA_NONE,
                       y = b + 1 < count ? dfa_step(d, (uint32_t)b, c) : FA_NONE;
                differs = apart[MIN(x, count - 1) * count + MIN(y, count - 1)];
            }
            changed |= differs && !apart[i];
            apart[i] |= differs;
        }
    }
}

/* The lowest label with which the nfa (without free edges) accepts. */
static uint32_t nfa_label(const struct nfa *n, const uint32_t *text, size_t len) {
    uint32_t at = 1, label = FA_NONE;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = 0;
        for (uint32_t s = 0; s < FA_STATES; s++)
            for (uint32_t e = n->first.items[s]; e != FA_NONE; e = n->edges.items[e].next)
                if ((at >> s & 1) && n->edges.items[e].lo <= text[i] &&
                    n->edges.items[e].hi >= text[i])
                    next |= 1u << n->edges.items[e].to;
        at = next;
    }
    for (uint32_t s = 0; s < FA_STATES; s++)
        if (at >> s & 1)
            label = MIN(label, n->labels.items[s]);
    return label;
}

static void expect_same_texts(const struct nfa *n, const struct dfa *d) {
    for (int i = 0; i < 40; i++) {
        uint32_t text[7], state = 0;
        size_t len = check_random() % 8;
        for (size_t k = 0; k < len; k++) {
            text[k] = (uint32_t)(check_random() % FA_SYMBOLS);
            state = state == FA_NONE ? state : dfa_step(d, state, text[k]);
        }
        uint32_t label = state == FA_NONE ? FA_NONE : d->states.items[state].label;
        EXPECT_EQ(label, nfa_label(n, text, len));
    }
}

TEST(automata_are_the_smallest) {
    for (int round = 0; round < 300; round++) {
        struct nfa n = {0};
        struct dfa d;
        struct error err;
        struct fa_fuel fuel = {.states = 10000};
        random_nfa(&n);
        EXPECT(!dfa_from_nfa(&n, 0, &fuel, &d, &err));
        size_t count = d.states.count + 1;
        bool *apart = mem_calloc(count * count, sizeof *apart);
        tell_apart(&d, count, apart);
        for (size_t a = 0; a < count; a++)
            for (size_t b = a + 1; b < count; b++)
                if (!apart[a * count + b] && count > 2)
                    check_fail(__FILE__, __LINE__, "round %d: states %zu and %zu are one", round, a,
                               b);
        mem_free(apart);
        expect_same_texts(&n, &d);
        dfa_release(&d);
        nfa_release(&n);
    }
}

/* ---- many values ---- */

/* So many numbers, each between `begin` and `end`. */
static void add_values(struct buf *out, size_t count, const char *begin, const char *end) {
    for (size_t i = 0; i < count; i++) {
        /* No two of them share more than chance has it. */
        unsigned long value = i * 7919 % 1000003;
        buf_add_str(out, i ? "," : "");
        buf_add_str(out, begin);
        buf_add_u64(out, value);
        buf_add_str(out, end);
    }
}

static int compile_text(enum grammar_kind kind, struct buf *text, struct program *p,
                        struct error *err) {
    int rc = compile(kind, buf_text(text), p, err);
    buf_release(text);
    return rc;
}

/* A schema with an enum of so many values, and `more` behind the last of them. */
static void add_enum(struct buf *out, size_t count, const char *begin, const char *end,
                     const char *more) {
    buf_add_str(out, "{\"enum\":[");
    add_values(out, count, begin, end);
    buf_add_str(out, more);
}

TEST(twenty_thousand_values_are_held) {
    static const char *const TEXTS[] = {"\"0\"", "0", "0.0", "\"n7919\"", "7919"},
                             *const KINDS[][2] = {{"\"", "\""}, {"", ""}, {"\"n", "\""}},
                             *const FITS[] = {"10000", "01101", "00010"};
    for (size_t k = 0; k < ARRAY_LEN(KINDS); k++) {
        struct buf text = {0};
        struct program p;
        struct error err;
        add_enum(&text, 20000, KINDS[k][0], KINDS[k][1], "],\"minLength\":1,\"minimum\":0}");
        if (compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err)) {
            check_fail(__FILE__, __LINE__, "values of kind %zu: %s", k, err.text);
            return;
        }
        for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
            EXPECT_EQ(accepts(&p, bytes_str(TEXTS[i])), FITS[k][i] == '1');
        program_release(&p);
    }
}

TEST(twenty_thousand_choices_are_held) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"type\":\"choice\",\"values\":[");
    add_values(&text, 20000, "\"the number ", "\"");
    buf_add_str(&text, "]}");
    EXPECT(!compile_text(GRAMMAR_STRUCTURE, &text, &p, &err));
    EXPECT(accepts(&p, bytes_str("the number 7919")));
    EXPECT(!accepts(&p, bytes_str("the number 1")));
    program_release(&p);
}

TEST(lists_of_values_meet_by_value) {
    static const char *const GOOD[] = {"\"7919\"", "1.0", "{\"b\":[2],\"a\":1}", "0", "null"},
                             *const BAD[] = {"\"a\"", "2", "\"x\"", "{\"a\":1}", "true", "[1]"};
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"allOf\":[");
    add_enum(&text, 1000, "\"", "\"", ",1,-0,null,{\"a\":1,\"b\":[2]},\"a\",[1],1e999]},");
    add_enum(&text, 2000, "\"", "\"", ",1.0,0,null,{\"b\":[2.0],\"a\":1.0},\"x\",[1,1],2]}]}");
    EXPECT(!compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err));
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        if (!accepts(&p, bytes_str(GOOD[i])))
            check_fail(__FILE__, __LINE__, "refuses %s", GOOD[i]);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        if (accepts(&p, bytes_str(BAD[i])))
            check_fail(__FILE__, __LINE__, "accepts %s", BAD[i]);
    program_release(&p);
}

/* Each value would be checked against each schema. */
TEST(too_many_checks_of_values_are_refused) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, "{\"allOf\":[");
    for (int i = 0; i < 100; i++)
        buf_add_str(&text, "{\"minLength\":1},");
    add_enum(&text, 20000, "\"", "\"", "]}]}");
    EXPECT(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "1048576 steps"));
}

/* What a schema of arrays in each other comes to, so many deep by references. */
static int compile_deep(int depth, struct error *err) {
    struct buf text = {0};
    struct program p;
    buf_add_str(&text, "{\"$ref\":\"#/$defs/1\",\"$defs\":{");
    for (int i = 1; i < depth; i++)
        buf_addf(&text, "\"%d\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/%d\"}},", i,
                 i + 1);
    buf_addf(&text, "\"%d\":{\"const\":1}}}", depth);
    int rc = compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, err);
    if (!rc)
        program_release(&p);
    return rc;
}

TEST(schemas_are_as_deep_as_they_may_be) {
    struct error err;
    EXPECT_EQ(compile_deep(200, &err), 0);
    EXPECT_EQ(compile_deep(201, &err), ERR_LIMIT);
    EXPECT_STR(err.text, "the schema is nested too deeply or has too many cases");
}

/* Few states, of which each has the ranges of a hundred copies of \p{L}. */
TEST(many_ranges_at_once_are_refused_in_time) {
    struct buf text = {0};
    struct program p;
    struct error err;
    buf_add_str(&text, ".*(");
    for (int i = 1; i < 100; i++)
        buf_addf(&text, "\\p{L}{%d}|", i);
    buf_add_str(&text, "a)x.*");
    EXPECT(compile_text(GRAMMAR_REGEX, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "too many states"));
}

/* ---- masks ---- */

/* Every byte, and texts that begin, end and cross what JSON is made of. */
static const char *const PIECES[] = {
    "{\"", "\":", "\": ", "\",", "\", \"", "\"}", "\"]", "}}", "]}", "},", ", ", "true", "fal",
    "null", "12", "0.5", "ab", "abc", "name", "na", "me\"", "me\":", "\\n", "\\u00", "e9", "\\\"",
    "\xC3", "\xA9", "\xF0\x9F", "  ", "\n  ", "[[", "[\"", "-1", "e+", "a\"", "xy\"z", "\"\"",
    /* characters of two to four bytes; one that `.` does not take; a cut one behind a whole one */
    "\xC3\xA9o", "\xE2\x80\x94", "\xE2\x80\xA8", "a\xE2\x80\xA9", "\xED\x9F\xBF",
    "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "x\xE0\xA0", "ot", "hote", "l Pa",
    /* subtrees of some size: of letters alone, with a slash, and with characters of two bytes */
    "el", "ela", "elas", "elast", "elasti", "else", "el/s", "elf%e", "ho\xC3\xA9", "hoh", "hohe",
    "hoher", "zz", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "zzzzzzzzzzzz"};
enum { BYTE_TOKENS = 256, END_TOKEN = BYTE_TOKENS + 80, TOKENS = END_TOKEN + 1 };
_Static_assert(ARRAY_LEN(PIECES) <= END_TOKEN - BYTE_TOKENS, "room for all pieces");

static struct vocab *small_vocab(uint8_t bytes[BYTE_TOKENS]) {
    static const uint32_t ENDS[] = {END_TOKEN};
    struct bytes tokens[TOKENS] = {{0}};
    for (uint32_t i = 0; i < BYTE_TOKENS; i++) {
        bytes[i] = (uint8_t)i;
        tokens[i] = bytes_of(&bytes[i], 1);
    }
    for (uint32_t i = 0; i < ARRAY_LEN(PIECES); i++)
        tokens[BYTE_TOKENS + i] = bytes_str(PIECES[i]);
    return vocab_new(tokens, TOKENS, ENDS, 1);
}

static bool allowed(const uint32_t *bits, uint32_t id) {
    return bits[id / 32] >> id % 32 & 1;
}

/* Whether a token is accepted by a fresh matcher at the same place. */
static bool token_fits(struct grammar_run *run, const uint32_t *before, size_t count, uint32_t id) {
    struct matcher *m = matcher_new(run);
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++)
        fits = matcher_token(m, before[i]);
    fits = fits && matcher_token(m, id);
    matcher_free(&m);
    return fits;
}

TEST(masks_are_what_is_accepted) {
    uint8_t bytes[BYTE_TOKENS];
    struct vocab *v = small_vocab(bytes);
    for (size_t r = 0; r < ARRAY_LEN(ROWS); r++) {
        struct program p;
        struct error err;
        EXPECT(!compile(ROWS[r].kind, ROWS[r].source, &p, &err));
        struct grammar_run *run = grammar_run_new(&p, v);
        for (int walk = 0; walk < 6; walk++) {
            struct matcher *m = matcher_new(run);
            uint32_t tokens[40], bits[(TOKENS + 31) / 32], choices[TOKENS];
            for (size_t n = 0; n < ARRAY_LEN(tokens); n++) {
                size_t count = 0;
                matcher_mask(m, bits);
                for (uint32_t id = 0; id < TOKENS; id++) {
                    if (allowed(bits, id) != token_fits(run, tokens, n, id)) {
                        check_fail(__FILE__, __LINE__, "'%s' after %zu tokens: token %u is %s",
                                   ROWS[r].source, n, id, allowed(bits, id) ? "in" : "out");
                        return;
                    }
                    if (allowed(bits, id) && id != END_TOKEN)
                        choices[count++] = id;
                }
                /* There is always a way on, or the end. */
                EXPECT(count || allowed(bits, END_TOKEN));
                if (!count)
                    break;
                tokens[n] = choices[check_random() % count];
                EXPECT(matcher_token(m, tokens[n]));
            }
            matcher_free(&m);
        }
        grammar_run_free(&run);
        program_release(&p);
    }
    vocab_free(&v);
}

TEST(a_mask_asked_for_again_is_the_same) {
    uint8_t bytes[BYTE_TOKENS];
    struct vocab *v = small_vocab(bytes);
    struct program p;
    struct error err;
    /* Inside a string, a counted one and a key; behind each byte the same mask three times. */
    static const char TEXT[] = "{\"a\":\"xyz\",\"b\":\"xyz\",\"other\":1}";
    EXPECT(!compile(GRAMMAR_JSON_SCHEMA,
                    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},"
                    "\"b\":{\"type\":\"string\",\"maxLength\":4}}}",
                    &p, &err));
    struct grammar_run *run = grammar_run_new(&p, v);
    struct matcher *m = matcher_new(run);
    for (size_t i = 0; i < sizeof TEXT - 1; i++) {
        uint32_t first[(TOKENS + 31) / 32], again[(TOKENS + 31) / 32];
        matcher_mask(m, first);
        for (int k = 0; k < 2; k++) {
            memset(again, 0xff, sizeof again);
            matcher_mask(m, again);
            EXPECT(!memcmp(first, again, v->word_count * sizeof *first));
        }
        EXPECT(allowed(first, (uint8_t)TEXT[i]) && matcher_token(m, (uint8_t)TEXT[i]));
    }
    matcher_free(&m);
    grammar_run_free(&run);
    vocab_free(&v);
    program_release(&p);
}

/* ---- many alternatives ---- */

/* `count` alternatives, each an object of 20 properties whose values are `value`. */
static void add_objects(struct buf *out, int count, const char *value) {
    buf_add_str(out, "{\"anyOf\":[");
    for (int i = 0; i < count; i++) {
        buf_add_str(out, i ? ",{\"type\":\"object\",\"properties\":{"
                           : "{\"type\":\"object\",\"properties\":{");
        for (int k = 0; k < 20; k++) {
            buf_add_str(out, k ? ",\"p" : "\"p");
            buf_add_u64(out, (uint64_t)k);
            buf_add_str(out, "\":");
            buf_add_str(out, k ? "{\"type\":\"string\"}" : value);
        }
        buf_add_str(out, "},\"required\":[\"p");
        buf_add_u64(out, (uint64_t)(i % 20));
        buf_add_str(out, "\"],\"minProperties\":");
        buf_add_u64(out, (uint64_t)(i / 20));
        buf_add_str(out, "}");
    }
    buf_add_str(out, "]}");
}

TEST(a_hundred_objects_may_be_open_at_once) {
    struct buf text = {0};
    struct program p;
    struct error err;
    uint8_t bytes[BYTE_TOKENS];
    uint32_t bits[(TOKENS + 31) / 32];
    add_objects(&text, 100, "{\"type\":\"integer\"}");
    EXPECT(!compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err));
    EXPECT(accepts(&p, bytes_str("{\"p0\":1,\"p3\":\"x\"}")));
    EXPECT(!accepts(&p, bytes_str("{\"p0\":\"x\"}")));
    struct vocab *v = small_vocab(bytes);
    struct grammar_run *run = grammar_run_new(&p, v);
    struct matcher *m = matcher_new(run);
    static const char TEXT[] = "{\"p0\":1,\"p3\":\"x\",\"other\":[]}";
    for (size_t i = 0; i < sizeof TEXT - 1; i++) {
        matcher_mask(m, bits);
        EXPECT(!matcher_failed(m) && allowed(bits, (uint8_t)TEXT[i]));
        EXPECT(matcher_token(m, (uint8_t)TEXT[i]));
    }
    EXPECT(matcher_may_end(m));
    matcher_free(&m);
    grammar_run_free(&run);
    vocab_free(&v);
    program_release(&p);
}

TEST(too_many_open_alternatives_are_refused_at_once) {
    struct buf text = {0}, inner = {0};
    struct program p;
    struct error err;
    add_objects(&text, 300, "{}");
    EXPECT(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "512 alternatives"));
    /* 30 at each of two depths are 900 behind the second brace. */
    add_objects(&inner, 30, "{}");
    add_objects(&text, 30, buf_text(&inner));
    EXPECT(compile_text(GRAMMAR_JSON_SCHEMA, &text, &p, &err) == ERR_LIMIT);
    EXPECT(strstr(err.text, "512 alternatives"));
    buf_release(&inner);
}

TEST(tables_made_anew_change_nothing) {
    struct program p;
    struct error err;
    EXPECT(!compile(GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\"}", &p, &err));
    struct grammar_run *run = grammar_run_new(&p, NULL);
    struct matcher *keeps = matcher_new(run), *fills = matcher_new(run);
    EXPECT(matcher_bytes(keeps, bytes_str("{\"a\":[{\"b\":[1,")));
    /* Each depth of nesting is a stack of its own, so the tables grow past their budget. */
    EXPECT(matcher_bytes(fills, bytes_str("{\"a\":")));
    for (int i = 0; i < 20000; i++)
        EXPECT(matcher_bytes(fills, bytes_str("[")));
    EXPECT(grammar_run_size(run) < RUN_BYTES_MAX);
    EXPECT(matcher_bytes(keeps, bytes_str("2]}]}")) && matcher_may_end(keeps));
    EXPECT(!matcher_bytes(keeps, bytes_str("]")));
    EXPECT(matcher_bytes(fills, bytes_str("]")));
    matcher_free(&keeps);
    matcher_free(&fills);
    grammar_run_free(&run);
    program_release(&p);
}

TEST(plain_json_has_an_end) {
    static const char *const good[] = {"{\"a\": [1, 2 ], \"b\": {}}",
                                       "{\"a\":[],\"b\":{\"c\": 1}}"},
                             *const bad[] = {
                                 "{\"a\":  [],\"b\":{}}", "{\"a\":\n[],\"b\":{}}",
                                 "{ \"a\":[],\"b\":{}}",  "{\"a\":[],  \"b\":{}}",
                                 "{\"a\":[],\"b\":{} }",  "{\"a\":[],\"b\":{\"c\":  1}}"};
    struct program p;
    struct error err;
    struct grammar_source source = {
        .kind = GRAMMAR_JSON_SCHEMA,
        .text = bytes_str("{\"type\":\"object\",\"required\":[\"a\",\"b\"],\"properties\":{\"a\":"
                          "{\"type\":\"array\"},\"b\":{\"type\":\"object\"}}}"),
        .plain = true};
    EXPECT(!grammar_compile(&source, NULL, &p, &err));
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        EXPECT(accepts(&p, bytes_str(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        EXPECT(!accepts(&p, bytes_str(bad[i])));
    program_release(&p);
    static const struct {
        const char *schema, *good, *bad;
    } NUMBERS[] = {
        {"{\"type\":\"integer\"}", "-120", "1.0"},
        {"{\"type\":\"integer\",\"minimum\":1}", "7", "7.00"},
        {"{\"type\":\"number\"}", "1.5e10", "1e100"},
        {"{\"type\":\"number\",\"maximum\":2}", "-0.25", "0.000000000000000000"},
        {"{\"enum\":[1]}", "1", "1.0"},
        {"{\"type\":\"integer\",\"minimum\":100000000000000000000}", "100000000000000000000", "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        source.text = bytes_str(NUMBERS[i].schema);
        EXPECT(!grammar_compile(&source, NULL, &p, &err));
        if (!accepts(&p, bytes_str(NUMBERS[i].good)) || accepts(&p, bytes_str(NUMBERS[i].bad)))
            check_fail(__FILE__, __LINE__, "%s", NUMBERS[i].schema);
        program_release(&p);
    }
}

TEST(forced_text_is_told) {
    struct program p;
    struct error err;
    struct buf out = {0};
    struct grammar_source source = {
        .kind = GRAMMAR_JSON_SCHEMA,
        .text = bytes_str("{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
                          "\"required\":[\"city\"],\"additionalProperties\":false}"),
        .compact = true};
    EXPECT(!grammar_compile(&source, NULL, &p, &err));
    struct grammar_run *run = grammar_run_new(&p, NULL);
    struct matcher *m = matcher_new(run);
    matcher_forced(m, 100, &out);
    EXPECT_STR(buf_text(&out), "{\"city\":\"");
    buf_release(&out);
    matcher_free(&m);
    grammar_run_free(&run);
    program_release(&p);
}

/* ---- schemas of others ---- */

struct tally {
    size_t schemas, compiled, wrong;
};

/* A text with "schema", then tests of "data" and "valid" in any order, once or more often. Valid data
 * must be accepted, invalid data refused, by every schema that compiles. */
static void judge(struct bytes text, struct tally *t) {
    struct json_reader r;
    struct program p = {0};
    struct error err;
    struct bytes data = {0};
    bool ready = false, valid = false, told = false, failed = false;
    json_reader_init(&r, text, JSON_DEPTH_MAX, JSON_ALLOW_NUL);
    for (enum json_event e; !failed && (e = json_next(&r)) != JSON_END && e != JSON_ERROR;) {
        bool is_schema = e == JSON_KEY && bytes_equal(r.text, bytes_str("schema"));
        bool is_data = e == JSON_KEY && bytes_equal(r.text, bytes_str("data"));
        if (e == JSON_KEY && bytes_equal(r.text, bytes_str("valid"))) {
            failed = !json_read_bool(&r, &valid);
            told = true;
        }
        if (is_schema || is_data) {
            (void)json_next(&r);
            size_t from = r.offset;
            if (!json_skip(&r))
                break;
            data = bytes_of(r.start + from, r.offset + r.raw.len - from);
        }
        if (is_schema) {
            struct grammar_source source = {.kind = GRAMMAR_JSON_SCHEMA, .text = data};
            program_release(&p);
            ready = !grammar_compile(&source, NULL, &p, &err);
            t->compiled += ready;
            t->schemas++;
            data = (struct bytes){0};
        }
        if (!told || !data.data)
            continue;
        t->wrong += ready && accepts(&p, data) != valid;
        told = false;
        data = (struct bytes){0};
    }
    EXPECT(!failed);
    program_release(&p);
    json_reader_release(&r);
}

/* Each line: {"schema", "tests": [{"valid", "data"}]}. */
TEST(public_schemas_accept_what_is_valid) {
    const char *path = check_shared("structured/maskbench_subset.jsonl");
    FILE *f = path ? fopen(path, "re") : NULL;
    if (!f)
        SKIP("shared", "structured/maskbench_subset.jsonl");
    char *line = NULL;
    size_t cap = 0;
    struct tally t = {0};
    ssize_t len;
    while ((len = getline(&line, &cap, f)) > 0)
        judge(bytes_of(line, (size_t)len), &t);
    free(line);
    fclose(f);
    printf("# %zu of %zu schemas compile\n", t.compiled, t.schemas);
    EXPECT(t.schemas > 1000);
    EXPECT(t.compiled * 100 >= t.schemas * 99);
    EXPECT_EQ(t.wrong, 0);
}

/* The official suite, of the drafts that are held. */
TEST(the_official_suite_is_judged_as_it_says) {
    static const char *const DRAFTS[] = {"draft2020-12", "draft7"};
    struct tally t = {0};
    for (size_t i = 0; i < ARRAY_LEN(DRAFTS); i++) {
        struct buf path = {0};
        buf_addf(&path, "structured/JSON-Schema-Test-Suite/tests/%s", DRAFTS[i]);
        const char *shared = check_shared(buf_text(&path));
        DIR *dir = shared ? opendir(shared) : NULL;
        struct dirent *entry;
        while (dir && (entry = readdir(dir))) {
            struct buf text = {0};
            struct error err;
            size_t len = strlen(entry->d_name);
            if (len < 5 || strcmp(entry->d_name + len - 5, ".json") != 0)
                continue;
            buf_reset(&path);
            buf_addf(&path, "%s/%s", shared, entry->d_name);
            EXPECT_EQ(file_read(buf_text(&path), 1 << 24, &text, &err), 0);
            judge(buf_bytes(&text), &t);
            buf_release(&text);
        }
        buf_release(&path);
        if (!dir)
            SKIP("shared", "structured/JSON-Schema-Test-Suite");
        closedir(dir);
    }
    printf("# %zu of %zu schemas compile\n", t.compiled, t.schemas);
    EXPECT(t.schemas > 600);
    EXPECT(t.compiled >= 530);
    EXPECT_EQ(t.wrong, 0);
}
