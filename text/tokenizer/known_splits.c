#include "text/tokenizer/known_splits.h"

#include "text/tokenizer/fast/scan.h"

enum { PATTERNS_MAX = 8, NAMES_MAX = 24 };

#define ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define WORD     "[^\\r\\n\\p{L}\\p{N}]?"
#define OTHERS   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SPACES   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K   ANY_CASE "|" WORD "\\p{L}+|\\p{N}{1,3}|" OTHERS "|" SPACES
#define QWEN2    ANY_CASE "|" WORD "\\p{L}+|\\p{N}|" OTHERS "|" SPACES
#define QWEN35                                                                                     \
    ANY_CASE "|" WORD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES
#define SEED    ANY_CASE "|" WORD "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES
#define SLASHES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define O200K                                                                                      \
    WORD UPPER "*" LOWER "+" ANY_CASE "?|" WORD UPPER "+" LOWER "*" ANY_CASE "?|\\p{N}{1,"         \
               "3}" SLASHES
#define TEKKEN WORD UPPER "*" LOWER "+|" WORD UPPER "+" LOWER "*|\\p{N}" SLASHES
#define BAILING                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|" WORD                                                                  \
    "+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define DEEPSEEK3 SCAN_DEEPSEEK3_REST
#define CJK3      SCAN_DEEPSEEK3_ASIAN
#define CJK       "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define BLOOM     " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

/* clang-format off */
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI       "[\\p{Han}]+|" WORD KIMI_UPPER "*" KIMI_LOWER "+" ANY_CASE "?|" WORD KIMI_UPPER "+" KIMI_LOWER "*" ANY_CASE "?|\\p{N}{1,3}|" OTHERS "|" SPACES
/* Letters of the scripts that the first DeepSeek models knew. */
#define DEEPSEEK_LETTERS "\\s?[" \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}" \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}" \
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}" \
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}" \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}" \
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}" \
    "\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}" \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}" \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}" \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}" \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}" \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}" \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}" \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}" \
    "\\x{1E900}-\\x{1E943}" "]+"
/* clang-format on */
#define FALCON_SIGNS "[\\p{P}\\$\\+<=>\\^~\\|`]+"
#define NO_CASE      WORD "\\p{L}+|\\p{N}|" OTHERS "|" SPACES
#define YOUTU_ASIAN                                                                                \
    "[\uac00-\ud7a3\u3131-\u318e]+|["                                                              \
    "\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-"             \
    "\ufe4f]+|"                                                                                    \
    "[\u3105-\u312f]+|" CJK3
#define YOUTU                                                                                      \
    WORD UPPER "*" LOWER "+" ANY_CASE "?|" WORD UPPER "+" LOWER "*" ANY_CASE "?|\\p{N}" SLASHES
#define EXAONE_MOE                                                                                 \
    ANY_CASE "|" WORD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "                             \
             "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|"                                        \
             "\\s+(?!\\S)|\\s+"
#define SPARK                                                                                      \
    "[!\"#$%&'()*+,\\-./"                                                                          \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "             \
    "?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"
#define AFMOE_ASIAN                                                                                \
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-"       \
    "\u2fdf\u0e40-\u0e7f"                                                                          \
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]" \
    "+"
/* Numbers in groups of three, the first of one to three, as (?=(...{3})*$) would have them but in
 * linear time: first the digits that are too many, then by threes from there. */
#define GROUPS(digit) "\\A" digit "{1,2}(?=(?:" digit "{3})*\\z)", "\\G" digit "{3}"

static const struct {
    const char *names[NAMES_MAX];
    const char *patterns[PATTERNS_MAX];
    struct known_split more;
} ROWS[] = {
    {{"gpt2",         "gpt-2",    "r50k_base", "p50k_base",       "mpt",        "olmo",
      "jais",         "phi-2",    "trillion",  "granite-docling", "exaone4",    "roberta-bpe",
      "modern-bert",  "jina-es",  "jina-de",   "jina-v2-es",      "jina-v2-de", "jina-v1-en",
      "jina-v2-code", "gigachat", "a.x-4.0",   "mellum"},
     {GPT2},
     {0}},
    {{"cl100k", "cl100k_base", "dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {CL100K}, {0}},
    {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
      "jina-v5-nano"},
     {CL100K},
     {.ignore_merges = true, .add_bos = true}},
    {{"minicpm5"}, {"\\p{N}{1,3}", CL100K}, {.ignore_merges = true}},
    {{"o200k", "o200k_base", "gpt-4o", "llama4", "minimax-m2", "kanana2", "talkie"}, {O200K}, {0}},
    {{"granite-embed-multi-97m"}, {O200K}, {.ignore_merges = true}},
    {{"qwen2", "stablelm2", "hunyuan", "deepseek-r1-qwen", "megrez", "grok-2", "kormo",
      "solar-open", "f2llmv2"},
     {QWEN2},
     {0}},
    {{"laguna"}, {"[^\\n]+|[\\n]+", QWEN2}, {0}},
    {{"ufakzeka"}, {NO_CASE}, {0}},
    {{"qwen35"}, {QWEN35}, {0}},
    {{"tekken"}, {TEKKEN}, {.ignore_merges = true, .add_bos = true}},
    {{"youtu"}, {YOUTU_ASIAN, YOUTU}, {.ignore_merges = true}},
    {{"exaone-moe"}, {EXAONE_MOE}, {0}},
    {{"tiny_aya", "cohere2moe"}, {"(?<!\\d)\\d++\\b", GROUPS("\\d"), O200K}, {0}},
    {{"afmoe"}, {"\\p{N}+", GROUPS("\\p{N}"), AFMOE_ASIAN, DEEPSEEK3}, {0}},
    {{"spark2_5"}, {"\\p{N}{1,3}", CJK3, SPARK, "\\p{N}"}, {0}},
    {{"deepseek-v3", "deepseek_v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
     {"\\p{N}{1,3}", CJK3, DEEPSEEK3},
     {0}},
    {{"deepseek-llm"},
     {"[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CJK, "\\p{N}+"},
     {0}},
    {{"deepseek-coder"}, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}, {0}},
    {{"falcon"}, {FALCON_SIGNS, GPT2, "[0-9][0-9][0-9]"}, {0}},
    {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {"\\p{N}", GPT2},
     {0}},
    {{"poro-chat", "bloom", "gpt3-finnish"}, {BLOOM}, {0}},
    {{"viking"}, {BLOOM, "\\p{N}"}, {0}},
    {{"chameleon"},
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     {.add_bos = true}},
    {{"superbpe"}, {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, {0}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {BAILING}, {0}},
    {{"seed-coder"}, {SEED}, {0}},
    {{"kimi-k2"}, {KIMI}, {0}},
    {{"default"}, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, {0}},
};

static bool has_name(size_t row, struct bytes name) {
    for (size_t i = 0; i < NAMES_MAX && ROWS[row].names[i]; i++)
        if (bytes_equal(name, bytes_str(ROWS[row].names[i])))
            return true;
    return false;
}

bool known_split_json(struct bytes name, struct buf *out, struct known_split *more) {
    size_t row = 0;
    while (row < ARRAY_LEN(ROWS) && !has_name(row, name))
        row++;
    if (row == ARRAY_LEN(ROWS))
        return false;
    if (more)
        *more = ROWS[row].more;
    buf_add_str(out, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (size_t i = 0; i < PATTERNS_MAX && ROWS[row].patterns[i]; i++) {
        buf_add_str(out, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
                         "\"pattern\":{\"Regex\":\"");
        buf_add_json(out, bytes_str(ROWS[row].patterns[i]));
        buf_add_str(out, "\"}},");
    }
    buf_add_str(out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}");
    return true;
}

const char *known_split_pattern(size_t idx) {
    for (size_t row = 0; row < ARRAY_LEN(ROWS); row++)
        for (size_t i = 0; i < PATTERNS_MAX && ROWS[row].patterns[i]; i++)
            if (!idx--)
                return ROWS[row].patterns[i];
    return NULL;
}

bool known_split_has(struct bytes pattern) {
    const char *known;
    for (size_t i = 0; (known = known_split_pattern(i)); i++)
        if (bytes_equal(pattern, bytes_str(known)))
            return true;
    return false;
}
