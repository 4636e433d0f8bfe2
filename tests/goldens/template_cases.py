"""Templates for templates.json, by topic. case(template, **variables)."""

CASES = []


def case(_template, **variables):
    CASES.append((_template, variables))


# text and white space
for source in ["plain text", "", "\n", "a\n", "a\n\n", "a\r\nb\rc\n"]:
    case(source)
case("{% if x %}\n  yes\n{% endif %}\nend", x=1)
case("  {% if x %}\n  a\n  {% endif %}\nb", x=1)
case("  {%- if x -%}  \n a \n {%- endif -%} \n b", x=1)
case("a {%+ if x %}b{% endif +%}\nc", x=1)
case("{# comment #}\nx{#- c -#}  y")
case("a\n  {# c #}\nb")
case("{% raw %}\n{{ x }}{% y %}{% endraw %}\nz")
case("  {%- raw -%}  {{ x }}  {%- endraw -%}  z")
case("{{ '}}' }}{{ '%}' }}")
case("{{ {'a': {'b': 1}}.a.b }}")
case("{{ x -}}   y {{- x }}", x=1)
case("x{{ 1 }}\n{{ 2 }}\n")
case("{% for i in [1,2] %}\n{{ i }}\n{% endfor %}\n")
case("\t{% set a = 1 %}\n\t{{ a }}")
# literals and operators
case("{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345.6 }} {{ 0x1f }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }}")
case("{{ 'a\\n\\t\\x41\\u00e9\\'\\q' }}{{ \"b\" 'c' }}")
case("{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}")
case("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}")
case("{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 'a' * 3 }} {{ [1] * 2 + [3] }} {{ 'a' + 'b' ~ 1 ~ none }}")
case("{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ true == 1 }} {{ 'a' in 'cat' }} {{ 3 not in [1,2] }}")
case("{{ 1 and 2 }} {{ 0 or 'x' }} {{ not 0 }} {{ not not 'a' }} {{ 1 if x else 2 }} {{ 1 if x }}|", x=0)
case("{{ x }}|{{ x.y }}", x={})
case("{{ missing.y }}")
case("{{ missing }}|{{ missing is defined }}|{{ missing|default('d') }}|{{ missing|length }}|{{ missing == none }}|{{ 1 in missing }}")
for source in ["missing + 'a'", "'a' + 1", "1 + 'a'", "none + 'a'", "1 / 0", "1 // 0", "'a' < 1", "5()", "x[missing]", "x['a']['b']", "-'a'", "1 in 5", "2 ** 3.5", "[] + ()",
               "'a' 'b' * 2", "1 - '1'", "x.a.b.c", "x.nothing()"]:
    case("{{ " + source + " }}", x={"a": 1})
case("{{ [1, 'a', none, 1.5, true, {'k': [\"it's\"]}] }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ {} }}")
case("{{ ['a\\nb', 'é', '\\x07', \"q'q\", 'd\"d', '\\\\'] }}")
case("{{ a[0] }}{{ a[-1] }}{{ a[5] }}{{ a[1:] }}{{ a[::-1] }}{{ a[:2] }}{{ a[-2:] }}{{ a[10:] }}{{ a[::2] }}{{ a[3:0:-2] }}", a=[1, 2, 3, 4])
case("{{ s[0] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}{{ s[5:1:-2] }}{{ s|length }}", s="h\u00e9llo w\u00f6rld")
case("{{ a['b'] }}{{ a.b }}{{ a['x'] }}{{ a.items is defined }}{{ a['items'] is defined }}{{ a.get('b') }}{{ a.get('z') }}{{ a.get('z', 5) }}", a={"b": 1})
case("{{ a['items'] }}{{ a.items == a['items'] }}", a={"items": [1]})
case("{{ 1:2 }}")
case("{{ x[1:2].y }}|", x="abc")
case("{{ {1: 'a', 1.0: 'b', true: 'c'} }}{{ {(1, 2): 3}[(1, 2)] }}{{ {[1]: 2} }}")
# statements
case("{% for x in [] %}a{% else %}none{% endfor %}")
case("{% for k, v in d.items() %}{{ loop.index }}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}", d={"a": 1, "b": 2})
case("{% for x in a if x > 1 %}{{ loop.index0 }}/{{ loop.length }}:{{ x }} {% endfor %}", a=[1, 2, 3])
case("{% for x in a %}{{ loop.previtem }}-{{ loop.nextitem }}-{{ loop.revindex }}-{{ loop.first }} {% endfor %}", a=[1, 2])
case("{% for x in a %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", a=[1, 2, 3, 4, 5])
case("{% for x in 'héy' %}{{ x }}.{% endfor %}{% for x in missing %}n{% endfor %}")
case("{% for x in 5 %}{% endfor %}")
case("{% for a, b in [[1,2],[3]] %}{% endfor %}")
case("{% for a in [1,1,2] %}{{ loop.cycle('x','y') }}{{ loop.changed(a) }}{% endfor %}{{ loop }}")
case("{% for a in g|map('string') %}{{ a }}{{ loop.last }}{% endfor %}", g=[1, 2])
case("{% for x in [1,2] %}{% for y in [3,4] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}")
case("{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = i + 1 %}{{ x }}{% endfor %}{{ x }}")
case("{% set ns = namespace(n=0) %}{% for i in [1,2,3] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{{ ns.missing }}")
case("{% set d = {} %}{% set d.x = 1 %}")
case("{% set a, b = 1, 2 %}{{ a }}{{ b }}")
case("{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]")
case("{% set x | upper | trim %} abc {% endset %}[{{ x }}]")
case("{% if a %}1{% elif b %}2{% else %}3{% endif %}", a=0, b=1)
case("{% if x is defined and x %}y{% endif %}n")
case("{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}")
case("{% filter upper %}abc{{ 'd' }}{% endfilter %}")
case("{% generation %}x{% endgeneration %}")
case("{% macro m(a, b=2, c=b) %}{{ a }},{{ b }},{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m() }}")
case("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}")
case("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}")
case("{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}")
case("{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}b{{ x }}{% endcall %}")
case("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}")
case("{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}")
case("{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}{% for y in [6] %}{{ m() }}{% endfor %}")
case("{% for i in t recursive %}{{ i.n }}{% if i.c %}({{ loop(i.c) }}){% endif %}{% endfor %}", t=[{"n": 1, "c": [{"n": 2, "c": []}]}])
case("{{ raise_exception('stop: ' ~ 1) }}")
case("{% if false %}{{ raise_exception('x') }}{% endif %}ok")
case("{{ strftime_now('%d %b %Y %H:%M') }}")
case("{{ range(3)|list }}{{ range(1, 10, 3)|list }}{{ range(5, 0, -2)|list }}{{ range(2) }}{{ range(4)[1] }}")
case("{{ range(100001) }}")
case("{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ dict([('k', 1)]) }}")
case("{% set j = joiner(', ') %}{% for x in [1,2,3] %}{{ j() }}{{ x }}{% endfor %}{% set c = cycler('a', 'b') %}")
# filters
case("{{ d|tojson }}|{{ d|tojson(indent=2) }}|{{ [1.0, 1e20, 0.1, none, true, 'é\"\\n<>&'] | tojson }}", d={"b": [1, {"c": None}], "a": "\u00e9", "e": {}, "f": []})
case("{{ d|tojson(sort_keys=true) }}{{ d|tojson(ensure_ascii=true) }}{{ d|tojson(separators=(',', ':')) }}", d={"b": "\u00e9\U0001f642", "a": 1})
case("{{ missing|tojson }}")
case("{{ x|tojson }}{{ x|tojson(indent=4) }}", x=[[]])
case("{{ {1: 'a', none: 'b'}|tojson }}")
case("[{{ '  a b\n'|trim }}][{{ 'xxaxx'|trim('x') }}][{{ 5|trim }}]")
case("{{ ''|default('d') }}|{{ ''|default('d', true) }}|{{ none|default('d') }}|{{ x.y|default('d') }}", x={})
case("{{ [1,2,3]|join(', ') }}|{{ a|join('-', attribute='n') }}|{{ 'abc'|join('.') }}", a=[{"n": 1}, {"n": 2}])
MESSAGES = [{"r": "u", "c": 1}, {"r": "a", "c": 2}]
case("{{ a|selectattr('r', 'equalto', 'u')|map(attribute='c')|list }}|{{ a|rejectattr('r', 'eq', 'u')|list|length }}|{{ a|selectattr('x')|list }}", a=MESSAGES)
case("{{ [1,2,3]|select('odd')|list }}{{ [0,1]|select|list }}{{ [1,2]|reject('gt', 1)|list }}{{ ['a','b']|map('upper')|join }}{{ [[3,1],[2]]|map('first')|list }}")
case("{{ a|map(attribute='n', default=0)|list }}", a=[{"n": 1}, {}])
case("{{ a|map(attribute='n.m')|list }}{{ b|map(attribute='0')|list }}", a=[{"n": {"m": 1}}], b=[[1], [2]])
case("{{ x|map('nope')|list }}", x=[1])
case("{{ [1]|selectattr|list }}")
case("{% set g = [1,2]|map('string') %}{{ g|list }}{{ g|list }}")
case("{{ [1,2]|map('string')|length }}")
case("{{ ([1,2]|map('string'))[0] }}|")
case("{% if []|select %}truthy{% endif %}")
case("{{ {'b': 1, 'a': 2}|items|list }}{{ {'b': 1, 'A': 2}|dictsort }}{{ {'b': 1, 'a': 2}|dictsort(by='value') }}{{ {'b':1}|list }}")
case("{{ 5|items|list }}")
case("{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}")
case("{{ 'hello wOrld-foo (bar'|title }}|{{ 'hELLO'|capitalize }}|{{ 'ß'|upper }}|{{ 'ÀB'|lower }}")
case("{{ 'aaa'|replace('a', 'b', 2) }}|{{ 'abc'|replace('', '-') }}|{{ 'a.b'|replace('.', '') }}")
case("{{ [3,1,2]|sort }}{{ ['b','A']|sort }}{{ ['b','A']|sort(case_sensitive=true) }}{{ [1,2]|sort(reverse=true) }}{{ a|sort(attribute='n')|map(attribute='n')|list }}", a=[{"n": 2}, {"n": 1}])
case("{{ [1,'a']|sort }}")
case("{{ [1,2,1,'A','a']|unique|list }}{{ [1,2]|sum }}{{ a|sum(attribute='n') }}{{ [2,1]|min }}{{ [2,1]|max }}{{ []|max }}|", a=[{"n": 2}])
case("{{ [1,2,3]|first }}{{ [1,2,3]|last }}{{ []|first }}{{ 'abc'|last }}|{{ [1,2,3]|reverse|list }}{{ 'abc'|reverse }}")
case("{{ [1,2,3]|batch(2)|list }}{{ [1,2,3]|batch(2, 0)|list }}{{ [1,2,3,4,5]|slice(2)|list }}")
case("{{ a|groupby('k')|map('last')|map('length')|list }}", a=[{"k": 2}, {"k": 1}, {"k": 2}])
case("{{ '42'|int }}{{ 'x'|int }}{{ 'x'|int(7) }}{{ 3.9|int }}{{ '3.7'|int }}{{ '0x1A'|int(base=16) }}{{ '1.5'|float }}{{ 'x'|float }}")
case("{{ 2.5|round }} {{ 3.5|round }} {{ 2.345|round(2) }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ 7|round }}")
case("{{ -3|abs }}{{ 'a<b>&\"\\''|e }}{{ 'x'|safe }}{{ 5|string + 'a' }}{{ '%s-%d-%.2f' % ('a', 3, 2.5) }}{{ '%s'|format(1) }}{{ 'a b  c'|wordcount }}")
case("{{ 'hello world foo'|truncate(8) }}|{{ 'hello world'|truncate(8, true) }}|{{ 'x'|center(5) }}|{{ 'a b/c?d'|urlencode }}|{{ '<p>a  <b>c</b></p>'|striptags }}")
case("{{ '%-5s|%05d|%+.1f|%x' % ('a', 42, 1.25, 255) }}")
case("{{ '%-.-5d' % 1 }}")
case("{{ '%q' % 1 }}")
case("{{ '%-\x00d' % 1 }}")
case("{{ x|nosuchfilter }}")
case("{% if false %}{{ x|nosuchfilter }}{% endif %}ok")
case("{% if true %}{{ x|nosuchfilter }}{% endif %}")
case("{% if false %}{% for x in y %}{{ x|nosuchfilter }}{% endfor %}{% endif %}ok")
case("{{ x is nosuchtest }}")
case("{{ 1 if true else x|nosuch }}")
# methods
case("{{ ' a '.strip() }}|{{ 'xax'.lstrip('x') }}|{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ ' a b c '.split(' ', 1) }}{{ 'a.b.c'.rsplit('.', 1) }}{{ ' a b '.split(none, 1) }}")
case("{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x','bc')) }}{{ 'abc'.upper() }}{{ 'a-b c'.title() }}{{ 'aXb'.swapcase() }}{{ 'abc'.find('c') }}{{ 'abc'.find('z') }}")
case("{{ 'banana'.count('an') }}{{ 'héllo'.index('l') }}{{ 'abcb'.rfind('b') }}{{ 'abc'.find('c', 1) }}{{ 'abc'.startswith('b', 1) }}{{ ''.count('') }}")
case("{{ 'abc'.index('z') }}")
case("{{ ','.join(['a','b']) }}{{ ','.join([1]) }}")
case("{{ 'a-b'.partition('-') }}{{ 'ab'.partition('-') }}{{ 'a-b-c'.rpartition('-') }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'a\nb'.splitlines(true) }}")
case("{{ 'x'.ljust(3, '.') }}{{ 'x'.rjust(3) }}{{ 'x'.center(4, '*') }}{{ '-5'.zfill(4) }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}")
case("{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ ''.isalpha() }}{{ ' '.isspace() }}{{ 'A'.isupper() }}{{ 'aB'.islower() }}{{ 'é'.isascii() }}")
case("{{ '{}-{}'.format('a', 1) }}{{ '{0}{1}{0}'.format('x', 'y') }}{{ '{n}'.format(n=5) }}{{ '{{}}'.format() }}")
for spec in [">6", "^7", "*<5", "é^5", "06", "+", " ", "=+6", ",", "_", "08,", ".2f", "08.3f", "+.1e", "g", ".3", "#x", "X", "#o", "b", "_x", "%", ".0%", "5s", "d", "q", ".3d", ","]:
    case("{{ '[{:" + spec + "}]'.format(v) }}", v=-1234567)
    case("{{ '[{:" + spec + "}]'.format(v) }}", v=2.5)
    case("{{ '[{:" + spec + "}]'.format(v) }}", v="héllo")
case("{{ '{a.k[0]}{0!r:>5}{b[x]}{:{w}}'.format('s', 2, a={'k': [7]}, b={'x': 1}, w=4) }}")
case("{{ '{a.k[0]}|{!r:>5}|{b[x]}|{:{w}}'.format('s', 2, a={'k': [7]}, b={'x': 1}, w=4) }}")
case("{{ '{a.none}'.format(a={}) }}{{ '{2}'.format(1) }}")
case("{{ '%5s|%-5s|%05d|%+d|% d|%x|%#o|%.3d|%5.1f|%e|%G|%%|%c%c|%r|%.2s' % ('é', 'é', 5, 5, 5, -255, 8, 7, 2.25, 1.5, 1e20, 'a', 98, 'q', 'héé') }}")
case("{{ '%*d|%-*s|%ld' % (5, 42, 4, 'a', 3) }}{{ '%(a)5s %(b)x'|format(a='q', b=255) }}")
case("{{ '%x' % 2.5 }}")
case("{{ '%d %d' % 1 }}")
case("{{ [1,2,1].count(1) }}{{ [1,2].index(2) }}{{ (1,2).count(1) }}")
case("{% set _ = [1].append(2) %}")
case("{{ [1].append }}|{{ [1].append is defined }}")
case("{{ {}.update({}) }}")
case("{% set l = [1,2,3] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}")
case("{% set l = [] %}{{ l.pop() }}")
case("{{ d.keys()|list }}{{ d.values()|list }}{{ d.items()|list }}{{ d.keys() }}{{ d.items()|length }}", d={"a": 1})
case("{{ 'abc'.replace('b', 'x') }}{{ 'abc'.nosuch }}|")
case("{{ 'abc'.nosuch() }}")
case("{{ x.__class__ }}|", x="a")
# tests
case("{{ 1 is number }}{{ '1' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ [] is iterable }}{{ 5 is iterable }}{{ none is none }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is integer }}")
case("{{ true is boolean }}{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 1 is sameas 1 }}{{ 1 is in [1] }}{{ 'a' is lower }}{{ range is callable }}{{ 1 is not none }}{{ 1 is eq(1) }}")
case("{{ {} is sequence }}{{ 'a' is sequence }}{{ {}.items() is sequence }}{{ missing is iterable }}{{ missing is sequence }}{{ true is number }}{{ 'a' is mapping }}")
case("{{ 1 is divisibleby }}")
case("{{ x is defined is none }}")
# syntax errors
for source in ["{{", "{{ }}", "{% if %}{% endif %}", "{% if x %}", "{% endif %}", "{% for x %}{% endfor %}", "{{ x", "{% unknown %}", "{{ (1 }}", "{{ 1) }}", "{% set 1 = 2 %}", "{% set true = 1 %}",
               "{# x", "{% raw %}", "{{ 'a }}", "{{ a b }}", "{% break %}", "{{ x| }}", "{{ x is }}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}",
               "{% extends 'x' %}", "{{ 1 ? 2 }}", "{% do x %}", "{{ [1, }}", "{{ not }}", "{% if x %}{% else %}{% elif y %}{% endif %}", "{% for x in y %}{% endif %}", "{{ @ }}"]:
    case(source)

# grown by template_random.py and by calling every filter, test and method
case("{% for g in m|groupby('role') %}{{ g.grouper }}={{ g.list|length }};{% endfor %}", **{'m': [{'role': 'b'}, {'role': 'a'}, {'role': 'b'}]})
case('{{ ls[w[:]] }}|{{ ls[w[:0]] is defined }}|{{ ls[0][:1] }}', **{'ls': ['ab'], 'w': 'word'})
case('{% for x in [1,2] %}{% continue %}{% else %}else{% endfor %}{% for x in [1,2] %}{% break %}{% else %}else{% endfor %}')
case('{% macro f(a, b=2) %}{{ kwargs }}{% endmacro %}{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}{{ f.catch_varargs }}{{ f.caller }}')
case("{{ none|map('nothing')|list }}{{ ''|select('nothing')|list }}{{ undef|rejectattr('a')|list }}")
case('{{ [none, none]|sort }}')
case("{{ [{'a': none}, {'a': none}]|groupby('a')|list }}")
case("{{ ['a', 'b']|groupby('zz') }}")
case("{{ [{'k':2},{}]|groupby('k', default=1)|list }}")
case('{{ 5|indent }}')
case('{{ 5|truncate }}')
case('{{ 5|reverse }}')
case('{{ undef|int }}')
case('{{ undef.x|float }}')
case('{{ {}.get([]) }}')
case("{{ {'a b': '1/2', 'c': 3}|urlencode }}")
case("{{ [['a', 1], ['b', 2]]|urlencode }}")
case('{{ [1]|urlencode }}')
case("{{ 'a\tbc\td'.expandtabs(4) }}{{ '\t\n\tx'.expandtabs() }}")
case("{{ 'Ab Cd'.istitle() }}{{ 'AB'.istitle() }}{{ 'a_1'.isidentifier() }}{{ '1a'.isidentifier() }}{{ 'a\n'.isprintable() }}")
case("{{ {'a': [1]}|tojson(indent='\t') }}")
case("{{ ['x'|escape] }}")
case('{% for x in [1,2] %}{{ loop }}{% endfor %}')
case("{{ [1,2]|sort('x') }}")
case("{{ 7|int(0, 'x') }}{{ '7'|int(3, 16) }}")
# constructs of popular models' templates (Qwen3-Coder, DeepSeek, Kimi, GLM, MiniMax, gpt-oss, Mistral, Command, Granite, Llama 4, Apertus, ...)
TOOLS = [{"type": "function", "function": {"name": "get", "description": "Gets\n  it", "parameters": {"type": "object", "properties": {"a": {"type": ["string", "null"], "description": "d", "enum": ["x", "y"]}, "n": {"type": "integer", "default": 3}}, "required": ["a"]}}}]
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": {"a": "é<b>", "n": 1.0, "ok": True, "z": None, "l": [1]}}}]}
TURNS = [{"role": "system", "content": "S "}, {"role": "user", "content": "Hi"}, CALL, {"role": "tool", "tool_call_id": "c1", "content": "42"}, {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "43"}]}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nDone "}, {"role": "user", "content": "Bye"}]
case("{%- for tool in tools %}{%- set f = tool.function %}{%- for name, field in f.parameters.properties|items %}{{- '\n<parameter>\n<name>' ~ name ~ '</name>' }}{%- if field.type is string %}T{{ field.type }}{% elif field.type is sequence %}{{ field.type | join('|') }}{%- endif %}{%- set handled = ['type', 'description'] %}{%- for k in field.keys() | reject('in', handled) %}{%- if field[k] is mapping or (field[k] is sequence and field[k] is not string) %}{{- k ~ field[k]|tojson|safe }}{%- else %}{{- k ~ field[k]|string }}{%- endif %}{%- endfor %}{%- endfor %}{%- endfor %}", tools=TOOLS)
case("{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- if ns.multi_step_tool and message.role == 'user' and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{%- endif %}{%- endfor %}{{ ns.last_query_index }}", messages=TURNS)
case("{% for m in messages %}{% set content = m.content if m.content is string else '' %}{% if '</think>' in content %}{% set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{% set content = content.split('</think>')[-1].lstrip('\n') %}[{{ reasoning_content }}][{{ content }}]{% endif %}{% endfor %}{{ content is defined }}", messages=TURNS)
case("{%- for message in messages %}{%- if message.role == 'tool' %}{%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}<{%- endif %}{{ message.content if message.content is string else message.content|map(attribute='text')|join }}{%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}>{%- endif %}{%- endif %}{%- endfor %}", messages=TURNS)
case("{% for m in messages %}{% if loop.previtem and loop.previtem.role == 'tool' %}after{% endif %}{{ loop.nextitem.role if loop.nextitem is defined else 'end' }} {% endfor %}", messages=TURNS)
case("{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls is iterable and m.tool_calls | length > 0 %}{% for tc in m.tool_calls %}{% set fn = tc.function or tc %}{{ fn.name }}{% for k, v in fn.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>{% endfor %}{% endfor %}{% endif %}{% endfor %}", messages=TURNS)
case("{% for m in messages if m.tool_calls %}{% for k, v in m.tool_calls[0].function.arguments|items %}{{ k }}={{ v }}|{{ v|tojson|safe if v is mapping or (v is sequence and v is not string) else v|string }};{% endfor %}{{ m.tool_calls[0].function.arguments }}{% endfor %}", messages=TURNS)
case("{%- macro render_type(t) -%}{%- if t is string -%}{{ {'string': 'str', 'integer': 'number'}.get(t, 'any') }}{%- elif t is iterable -%}{% for x in t %}{{ render_type(x) }}{{ ' | ' if not loop.last }}{% endfor %}{%- endif -%}{%- endmacro -%}namespace functions {\n\n{% for tool in tools -%}// {{ tool.function.description|replace('\n', '\n// ') }}\ntype {{ tool.function.name }} = (_: {\n{%- for n, p in tool.function.parameters.properties.items() %}\n{{ n }}{{ '?' if n not in tool.function.parameters.required }}: {{ render_type(p.type) }},{% if p.default is defined %} // default: {{ p.default }}{% endif %}{% endfor %}\n}) => any;\n{% endfor %}}", tools=TOOLS)
case("{%- macro f(p, required, is_nullable=false) -%}{%- if p['enum'] -%}\"{{ p['enum']|join('\" | \"') }}\"{%- else -%}{{ p.type }}{%- endif -%}{{ ' | null' if is_nullable or 'null' in p.type }}{%- endmacro -%}{{ f(tools[0].function.parameters.properties.a, []) }}{{ f(tools[0].function.parameters.properties.n, [], is_nullable=true) }}", tools=TOOLS)
case("{%- set today = strftime_now('%Y-%m-%d') %}{%- set date_string = date_string if date_string is defined else strftime_now('%d %B %Y') %}{{ today }}{{ date_string }}{{ strftime_now('%A, %-d %b') }}{{ (today[:4]|int) - 1 }}")
case("{%- set yesterday_day = '%02d' % ((strftime_now('%d')|int) - 1) %}{{ strftime_now('%Y-%m-') + yesterday_day }}{{ '%s %s' % ('a', 'b') }}{{ '{:02d}'.format(7) }}{{ 'x%%' % () }}")
case("{{ default_system_message | replace('{today}', '2025') | replace('{yesterday}', '2024') }}{{ 'a{x}b'.replace('{x}', '') }}", default_system_message="T {today} Y {yesterday}")
case("{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}{%- if not tools is defined %}{%- set tools = none %}{%- elif tools is not none %}{%- set parallel_tool_prompt = 'P' %}{%- endif %}{%- set user_messages = loop_messages | selectattr('role', 'equalto', 'user') | list %}{%- set ns = namespace(index=0) %}{%- for message in loop_messages %}{%- if not (message.role == 'tool' or (message.tool_calls is defined and message.tool_calls is not none)) %}{%- if (message['role'] == 'user') != (ns.index % 2 == 0) %}{{ raise_exception('alternate') }}{%- endif %}{%- set ns.index = ns.index + 1 %}{%- endif %}{%- endfor %}{{ user_messages[-1].content }}{{ tools is none }}{{ system_message|trim }}", messages=TURNS)
case("{%- for message in messages %}{%- if message.role == 'assistant' and message == messages[-1] %}same{%- endif %}{%- if message == user %}user{%- endif %}{%- endfor %}", messages=TURNS, user={"content": "Hi", "role": "user"})
case("{%- for tool in tools %}{%- set tool = tool.function %}{{- '{\"type\": \"function\", \"function\": {' }}{%- for key, val in tool.items() if key != 'return' %}{%- if val is string %}{{- '\"' + key + '\": \"' + val + '\"' }}{%- else %}{{- '\"' + key + '\": ' + val|tojson }}{%- endif %}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- '}}' }}{%- endfor %}", tools=TOOLS)
case("{% for d in documents %}\nDocument: {{ loop.index0 }}\n{% for key, value in d.items() %}{{ key|title }}: {{ value }}\n{% endfor %}{% endfor %}{{ documents|map(attribute='title')|join(', ') }}{{ documents|tojson(indent=4) }}", documents=[{"title": "A", "text": "x"}, {"title": "B", "text": "é\"", "n": 1}])
case("{%- macro document_turn(documents) -%}<results>{% for doc in documents %}{{ '\\n' if not loop.first }}{\"document_id\": \"{{ loop.index0 }}\", {% for k in doc %}{{ k|tojson }}: {{ doc[k]|tojson }}{{ ', ' if not loop.last }}{% endfor %}}{% endfor %}</results>{%- endmacro %}{{ document_turn(documents) }}", documents=[{"title": "A", "text": "x/y"}])
case("{% set content %}\n{% for m in messages %}{{ m.role }} {% endfor %}\n{% endset %}{{ content|trim }}|{{ content|length }}", messages=TURNS)
case("{{ (messages|last).role }}{{ messages|map(attribute='role')|unique|list }}{{ (messages|selectattr('role', 'in', ['tool', 'user'])|list)|length }}{{ messages|rejectattr('tool_calls', 'defined')|map(attribute='role')|join(',') }}{{ messages|selectattr('tool_calls', 'defined')|first is defined }}", messages=TURNS)
case("{%- if thinking is not defined %}{%- set thinking = false %}{%- endif %}{%- if enable_thinking is defined and enable_thinking is false %}off{% elif enable_thinking is true %}on{% endif %}{{ thinking }}{{ '</think>' if not thinking else '<think>' }}{{ reasoning_effort|default('medium', true)|capitalize }}{{ budget if budget is number else -1 }}", enable_thinking=False, reasoning_effort=None)
case("{{ bos_token }}{%- for m in messages %}{{- '<|' ~ m['role'] ~ '|>' + (m['content'] or '')|string|trim + eos }}{%- endfor %}{% if add_generation_prompt %}{% generation %}x{% endgeneration %}{% endif %}", messages=[{"role": "user", "content": " a "}, {"role": "assistant", "content": None}], bos_token="<s>", eos="</s>", add_generation_prompt=True)
case("{%- for c in content %}{%- if c.type == 'image' or 'image' in c or 'image_url' in c %}{%- set n.value = n.value + 1 %}{%- elif 'text' in c %}{{ c.text }}{%- endif %}{%- endfor %}", content=[{"type": "text", "text": "a"}])
case("{%- set n = namespace(value=0) %}{%- for c in content %}{%- if c.type == 'image' or 'image' in c or 'image_url' in c %}{%- set n.value = n.value + 1 %}{% if add_vision_id %}Picture {{ n.value }}: {% endif %}<img>{%- elif 'text' in c %}{{ c.text }}{%- endif %}{%- endfor %}", content=[{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}], add_vision_id=True)
case("{%- if tools %}{%- set has = tools|selectattr('function.name', 'equalto', 'get')|list|length > 0 %}{{ has }}{{ tools|map(attribute='function.name')|list }}{{ tools|map(attribute='function')|list|tojson(separators=(',', ':')) }}{{ tools|sum(attribute='function.parameters.properties.n.default') }}{%- endif %}", tools=TOOLS)
case("{%- set emit = namespace(started=false) %}{%- for m in messages if m.role != 'system' %}{%- if not emit.started %}{%- set emit.started = true %}[{% endif %}{{ m.role[0]|upper }}{{ loop.length }}{{ loop.revindex0 }}{%- if loop.index is divisibleby 2 %},{% endif %}{%- endfor %}]", messages=TURNS)
case("{{ 'a' 'b' ~ ('c' if x else 'd') ~ x|default('e')|upper }}{{ x is undefined and y is undefined }}{{ (x or [])|length }}{{ (x.y.z is defined) if x else 'no' }}{{ {'a': 1}|length }}{{ not x }}")
case("{%- macro a(x) %}{{ caller(x) if caller else 'n' }}{% endmacro %}{% call(v) a(5) %}{{ v + 1 }}{% endcall %}{{ a(1) }}")
case("{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}{% for k in d|sort %}{{ k }}{% endfor %}{% for k in d.keys()|list|reverse %}{{ k }}{% endfor %}{{ d.values()|list|sum }}{{ d.items()|list }}", d={"b": 1, "a": 2})
case("{% set parts = content.split('<|x|>') %}{{ parts|length }}{{ parts[0].strip() }}{{ parts[-1][:-1] }}{{ content.find('<|x|>') }}{{ content[content.index('|')+1:] }}{{ content.rsplit('|', 1)[1] }}{{ content.count('a') }}{{ content.partition('<|x|>')[2] }}", content=" ab<|x|>cab<|x|>d ")
case("{%- if not loop is defined %}{{ raise_exception('Unexpected role: ' + role) }}{%- endif %}", role="x")
case("{{ {'a': [1, {'b': none}], 'c': 'é'}|tojson(ensure_ascii=False, indent=2, separators=(',', ': '), sort_keys=True) }}{{ [1, 2]|tojson(indent=none) }}{{ '</s>'|tojson }}{{ \"it's\"|tojson }}")
case("{{ ['a', 'b']|map('tojson')|join(', ') }}{{ [{'t': 'x'}]|map(attribute='t')|map('trim')|list }}{{ 'a,b'.split(',')|map('upper')|list }}{{ ['x', '']|select|list }}{{ [1, none]|reject('none')|list }}{{ 'abc'|list|join('-') }}")
case("{% for line in text.split('\n') %}{{ loop.index }}: {{ line|trim }}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}{{ text|indent(4) }}{{ text|indent(2, first=true) }}{{ text.splitlines()|length }}", text="a\n b\n\nc")
case("{% if x is mapping and 'k' in x and x['k'] is not none and x.k|length > 0 %}y{% endif %}{{ x.get('k', {}).get('z', 'dflt') }}{{ x['nokey']|default({}, true) }}{{ x.k.q is none }}{{ x.k.q is not defined }}", x={"k": {"a": 1}})
case("{{ [1, 2]|truncate(5) }}{{ {'a': 'long enough'}|truncate(3) }}[{{ undef|truncate }}]{{ range(3)|truncate }}")
case("{{ [1, 2, 3, 4, 5, 6, 7, 8, 9]|truncate(3) }}")
case("{{ 'a%%' % [] }}{{ 'b' % undef }}{{ 'c' % {'x': 1} }}{{ '%s' % {'x': 1} }}{{ '%s' % [1, 2] }}{{ '%(x)s' % {'x': 1, 'y': 2} }}{{ '[%s]' % undef }}")
case("{{ 'a' % 1 }}")
case("{{ '%s%s' % [1, 2] }}")
case("{{ '%s%s' % {'x': 1} }}")
case("{{ '%(a)s' % [1] }}")
# strings that are marked as safe: what joins them is escaped
case("{{ \"Use '\"|safe + x + \"' to \"|safe + x|tojson }}|{{ x + 'a'|safe }}|{{ 'a'|safe ~ x }}|{{ ('<b>'|safe) * 2 + '<' }}", x="<é> & \"q\"")
case("{{ ('<%s> %r'|safe) % (x, 1) }}|{{ '<%s|%d>'|safe|format(x, 5) }}|{{ ('<{}|{a}>'|safe).format(x, a=1) }}", x="<'>")
case("{{ ('<{}|{a:>5}>'|safe).format(x, a=1) }}|{{ (', <'|safe).join([x, 1, x|safe]) }}|{{ ', '.join([x|safe, x]) }}", x="<'>")
case("{{ ('{:>5}'|safe).format('a'|safe) }}")
for form in ["s.upper()", "s|upper", "s|trim", "s.split('>')[0]", "s|string", "s[1:]", "s[0]", "s|last", "s|first", "s|reverse", "s|title", "s|capitalize", "s|center(9)", "s|indent", "s|truncate(3, true)",
             "s|truncate(3, true, '&')", "s.replace('b', '<')", "s|replace('b', '<')", "s.partition('b')[1]", "s.ljust(9)", "s|default('x')", "s|e", "s|list|first", "[s, '<']|join"]:
    case("{% set s = '<b> c'|safe %}{{ " + form + " + '<' }}")
case("{{ ('<b>'|safe).ljust(9, '<') }}")
case("{{ ['a', 'b']|sum(start='') }}")
# what needs another template, and the template itself
case("{% if false %}{% include 'a' %}{% import 'b' as c %}{% from 'd' import e, f as g %}{% extends 'h' %}{% endif %}x{{ self }}[{{ self.nothing }}]")
for tag in ["include 'a'", "include 'a' ignore missing", "import 'a' as b", "from 'a' import b", "extends 'a'"]:
    case("x{% " + tag + " %}")
case("{{ self() }}")
case("{{ '%s %(a)s'|format(1, a=2) }}")
case("{{ 'abcdefgh'|truncate(3, true, none) }}")
case("{{ 'abcdefgh'|truncate(3, true, 5) }}")
case("{{ 'ab'|truncate(3, true, undef) }}")
case("{% if x['items'] is defined and x['keys'] is callable and x['nokey'] is undefined %}{{ x['get']('a') }}{% endif %}{{ x['upper'] is defined }}", x={"a": 1})
# a macro made in a loop knows itself
case("{% for f in [5] %}{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(2) }}{% endfor %}{{ f is defined }}")

# what a scope assigns first is its own: the context's is not seen before, also not by what is inside
for source in ["{% set s %}[{{ s }}]{% endset %}{{ s }}", "{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}{{ s }}", "{{ s }}{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}{{ s }}",
               "{% if l %}{% set s = 1 %}{% endif %}{% for i in l %}{{ s }}{% endfor %}", "{% macro f() %}<{{ s }}>{% endmacro %}{{ f() }}{% set s = 1 %}{{ f() }}",
               "{% for i in l %}{% for k in l %}{{ s }}{% endfor %}{% set s = i %}{% endfor %}{{ s }}", "{% for i in l %}{% for k in l %}{{ s }}{% endfor %}{% set s = i %}{% endfor %}{% if s %}{% endif %}",
               "{% set s = s ~ '!' %}{% for i in l %}{{ s }}{% endfor %}", "{% if x is not defined %}{% set x = 1 %}{% endif %}{% for i in l %}{{ x }}{% endfor %}", "{% with s = 2 %}{% set l = 5 %}{{ s }}{{ l }}{% endwith %}{{ l }}",
               "{% for i in l if i > s|length %}{{ i }}{% set s = 3 %}{% else %}{{ s }}{% endfor %}", "{% filter upper %}{% set s = s ~ 'x' %}{{ s }}{% endfilter %}{{ s }}", "{% for i in l %}{% call m() %}{{ s }}{% endcall %}{% set s = 1 %}{% endfor %}",
               "{% macro m() %}({{ caller() }}){% endmacro %}{% for i in l %}{% call m() %}{{ s }}{% endcall %}{% set s = 1 %}{% endfor %}", "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}"]:
    case(source, s="ctx", l=[1, 2])
# blocks
for source in ["{% for i in l %}{% block b %}[{{ i }}{{ s }}]{% endblock %}{% endfor %}", "{% for i in l %}{% block b scoped %}[{{ i }}]{% endblock b %}{% endfor %}", "{% block b %}<{{ s }}>{% endblock %}{{ self.b() }}{{ self.b is defined }}{{ self.c is defined }}",
               "{% set s = 1 %}{% block b %}{{ s }}{% set s = 2 %}{{ s }}{% endblock %}{{ s }}{{ self.b()|upper }}", "{{ self.c() }}", "{% block b %}{% endblock %}{% block b %}{% endblock %}", "{% block b required %} {# x #}{% endblock %}",
               "{% block b required %}x{% endblock %}", "{% block b %}{{ super() }}{% endblock %}", "{% for i in l %}{% block b %}{% break %}{% endblock %}{% endfor %}", "{% block b %}{{ self.b() }}{% endblock %}", "{% block b %}{{ loop is defined }}{% endblock c %}"]:
    case(source, s="ctx", l=[1, 2])
# escaping
for source in ["{{ s }}{% autoescape true %}{{ s }}{{ s|safe }}{{ '<' }}{{ n }}{{ s|e }}{% endautoescape %}{{ s }}", "{% autoescape true %}{% set x %}{{ s }}{% endset %}{{ x }}{% endautoescape %}{{ x }}{{ x is escaped }}",
               "{% macro f() %}<{{ s }}>{% endmacro %}{% autoescape true %}{{ f() }}{% endautoescape %}{{ f() is escaped }}", "{% autoescape true %}{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(s) }}{% endautoescape %}{{ f(s) }}",
               "{% autoescape n %}{{ s }}{{ s ~ s|safe }}{% endautoescape %}", "{% autoescape true %}{{ s ~ n ~ s|safe }}{{ s ~ n }}{{ s + s|safe }}{{ 'a' + s }}{% endautoescape %}", "{% autoescape true %}{{ [s, s|safe]|join(',') }}{{ [s]|join('<') }}{{ [s]|join('<'|safe) }}{% endautoescape %}",
               "{% autoescape true %}{{ s|replace('a', '<') }}{{ s|replace('a', '<'|safe) }}{{ s|safe|replace('a', '<') }}{% filter upper %}{{ s }}{% endfilter %}{% endautoescape %}",
               "{% autoescape true %}{% autoescape false %}{{ s }}{% endautoescape %}{{ s }}{% for x in [[s]] recursive %}{{ loop(x) if x is not string else x }}{% endfor %}{% endautoescape %}", "{% autoescape true %}{{ {'a': s}|tojson }}{{ [s] }}{{ undef }}{{ none }}{% endautoescape %}",
               "{{ '<'|safe + s + '&' ~ s }}{{ '<' + s + '&'|safe + n|string }}", "{% autoescape %}{% endautoescape %}", "{% autoescape true %}"]:
    case(source, s="<a b='c'>", n=5)
# numbers
for source in ["{{ 15|round(-1) }}{{ 25|round(-1) }}{{ -15|round(-1) }}{{ 25.0|round(-1) }}{{ 7|round(1) }}{{ true|round(-1) }}", "{{ -0.2|round(0, 'ceil') }}{{ 2.675|round(2, 'floor') }}{{ 5|round(-400) }}{{ 5.5|round(-400) }}{{ 5.5|round(400) }}", "{{ 1e308 * 10 }}{{ (1e308 * 10)|round(0, 'floor') }}",
               "{{ 10.0 ** 400 }}", "{{ s|tojson }}{{ s|tojson(ensure_ascii=true) }}", "{{ 'ab'.replace('a', 'b', none) }}", "{% macro o() %}{% macro i() %}{{ kwargs }}{% endmacro %}{{ i(a=1) }}{% endmacro %}{{ o.catch_kwargs }}{{ o(b=2) }}"]:
    case(source, s="a\x7f\x1f")

# integers past 64 bits
for source in ["{{ b }}{{ b|tojson }}{{ [b] }}{{ b == 123456789012345678901234567890 }}{{ b > 5 }}{{ [b, 1, 2.5]|sort }}{{ {b: 1} }}{{ b|int }}{{ b ~ 'x' }}{{ b is integer }}{{ b|float }}{{ b|abs }}", "{{ [1, 2][:u] }}{{ 'a' in [u] }}"]:
    case(source, b=123456789012345678901234567890, u=2**64 - 1)
# exact order, signs of zero
for source in ["{{ 9007199254740993 == 9007199254740992.0 }}{{ 9007199254740993 > 9007199254740992.0 }}{{ -3 < -3.5 }}{{ 3 >= 3.0 }}", "{{ -0.0 % 2 }}{{ 5.5 // -2 }}{{ -5.5 % 2 }}{{ 0.0 // -1 }}{{ 6.0 // 0.1 }}", "{% set n = x * 10 - x * 10 %}{{ n == n }}{{ n < 1 }}{{ n > 1 }}{{ n >= 1 }}{{ n <= 1 }}{{ [3, n, 1]|sort }}",
               "{{ 1e100 is even }}{{ 2.5 is even }}{{ -3.0 is odd }}"]:
    case(source, x=1e308)
# methods of numbers, ranges, cyclers; tables of characters; rows
for source in ["{{ range(3)[1:] }}{{ range(0, 10, 3) }}{{ range(0, 10, 3)[::-1] }}{{ range(5, 2) }}{{ range(10)[8:2] }}{{ range(5).index(3) }}{{ range(5).count(9) }}{{ range(3).stop }}", "{{ (5).bit_length() }}{{ true.real }}{{ (2.5).is_integer() }}{{ (3).denominator }}{{ 2.5.imag }}{{ 5.foo is defined }}",
               "{{ 'abc'.translate({97: 'x', 98: none, 99: 100}) }}{{ 'abc'.translate('abc'.maketrans('ab', 'xy', 'c')) }}{{ ''.maketrans({'a': 'b', 5: 6}) }}", "{{ ''.maketrans('a', 'bc') }}", "{{ '{a} {b[0]}'.format_map({'a': 1, 'b': [2]}) }}{{ {}.fromkeys('ab', 3) }}",
               "{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}{{ c is callable }}", "{% set c = cycler(1, 2) %}{{ c() }}", "{{ [1, 2, 3]|batch(2)|list }}{{ [1, 2]|batch(0)|list }}{{ [1, 2, 3]|batch(2, 0)|list }}{{ 5|batch(2) is defined }}{{ [1, 2, 3]|slice(-1)|list }}", "{{ 5|batch(2)|list }}", "{{ [1]|slice(0)|list }}",
               "{{ s|indent }}|{{ s|indent(2, true) }}|{{ s|indent('> ', blank=true) }}|{{ (s ~ 'x')|indent(1) }}"]:
    case(source, s="a\r\nb\u2028\n\x0bc\r")
for source in ["{% block b %}{{ s }}{% endblock %}{% set s = 1 %}{% block c %}{{ s }}{% endblock %}{% for i in [1] %}{{ s }}{% endfor %}", "{% for i in [1] %}{{ s }}{% endfor %}{% block b %}{{ s }}{% set s = 2 %}{{ s }}{% endblock %}{% set s %}{{ self.b() }}{% endset %}{{ self.b() }}"]:
    case(source, s="ctx")
