/* Where models come from and where they are kept: what each variable of the environment says, and in which order. */
#include "check.h"
#include "formats/hub/places.h"
#include "hub_folder.h"

static const char *const VARIABLES[] = {"HOME",
                                        "XDG_CACHE_HOME",
                                        "HF_HOME",
                                        "HF_HUB_CACHE",
                                        "HUGGINGFACE_HUB_CACHE",
                                        "HF_ENDPOINT",
                                        "HF_TOKEN",
                                        "HUGGING_FACE_HUB_TOKEN",
                                        "HF_TOKEN_PATH",
                                        "HF_HUB_OFFLINE",
                                        "TRANSFORMERS_OFFLINE",
                                        "HF_HUB_DOWNLOAD_TIMEOUT",
                                        "TRIREME_OLLAMA_REGISTRY",
                                        "TRIREME_OLLAMA_CACHE",
                                        "OLLAMA_MODELS"};

/* Exactly these: "NAME=VALUE\n" each. */
static void set_environment(const char *text) {
    for (size_t i = 0; i < ARRAY_LEN(VARIABLES); i++)
        unsetenv(VARIABLES[i]);
    char *all = mem_strdup(text), *rest = all, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *sign = strchr(line, '=');
        if (sign) {
            *sign = 0;
            CHECK(!setenv(line, sign + 1, 1));
        }
    }
    mem_free(all);
}

static struct error err;
static struct hub_places p;

static const char *shown(const char *text) {
    return text ? text : "-";
}

TEST(hub_places_of_folders) {
    static const struct {
        const char *environment, *cache, *ollama_cache, *ollama_models;
    } ROWS[] = {
        {"HOME=/h", "/h/.cache/huggingface/hub", "/h/.cache/trireme/ollama", "/h/.ollama/models"},
        {"HOME=/h\nXDG_CACHE_HOME=/x", "/x/huggingface/hub", "/x/trireme/ollama",
         "/h/.ollama/models"},
        {"HOME=/h\nXDG_CACHE_HOME=~/x", "/h/x/huggingface/hub", "/h/x/trireme/ollama",
         "/h/.ollama/models"},
        {"XDG_CACHE_HOME=/x", "/x/huggingface/hub", "/x/trireme/ollama", "-"},
        {"HOME=/h\nXDG_CACHE_HOME=\nHF_HOME=", "/h/.cache/huggingface/hub",
         "/h/.cache/trireme/ollama", "/h/.ollama/models"},
        {"HOME=/h\nHF_HOME=/f", "/f/hub", "/h/.cache/trireme/ollama", "/h/.ollama/models"},
        {"HOME=/h\nHF_HOME=/f\nHUGGINGFACE_HUB_CACHE=/g", "/g", "/h/.cache/trireme/ollama",
         "/h/.ollama/models"},
        {"HOME=/h\nHUGGINGFACE_HUB_CACHE=/g\nHF_HUB_CACHE=~/c", "/h/c", "/h/.cache/trireme/ollama",
         "/h/.ollama/models"},
        {"HOME=/h\nHF_HUB_CACHE=~c", "~c", "/h/.cache/trireme/ollama", "/h/.ollama/models"},
        {"HOME=/h\nHF_HUB_CACHE=x/c", "x/c", "/h/.cache/trireme/ollama", "/h/.ollama/models"},
        {"HF_HUB_CACHE=~/c\nTRIREME_OLLAMA_CACHE=/o\nOLLAMA_MODELS=/m", "~/c", "/o", "/m"},
        {"HOME=/h\nTRIREME_OLLAMA_CACHE=~/o\nOLLAMA_MODELS=~/m", "/h/.cache/huggingface/hub",
         "/h/o", "/h/m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        set_environment(ROWS[i].environment);
        EXPECT_EQ(hub_places_read(&p, &err), 0);
        if (strcmp(p.cache, ROWS[i].cache) || strcmp(p.ollama_cache, ROWS[i].ollama_cache) ||
            strcmp(shown(p.ollama_models), ROWS[i].ollama_models))
            check_fail(__FILE__, __LINE__, "row %zu: '%s', '%s', '%s'", i, p.cache, p.ollama_cache,
                       shown(p.ollama_models));
        EXPECT_STR(p.endpoint, "https://huggingface.co");
        EXPECT_STR(p.registry, "https://registry.ollama.ai");
        EXPECT(!p.token && !p.offline && p.patience_s == 10);
        hub_places_release(&p);
        EXPECT(!p.cache && !p.endpoint);
    }
    static const char *const NONE[] = {"", "HF_HOME=/f", "TRIREME_OLLAMA_CACHE=/o", "HOME="};
    for (size_t i = 0; i < ARRAY_LEN(NONE); i++) {
        set_environment(NONE[i]);
        EXPECT_EQ(hub_places_read(&p, &err), ERR_NOT_FOUND);
        EXPECT_STR(err.text, "there is no folder for models: set HF_HOME, or HOME");
        hub_places_release(&p);
    }
}

TEST(hub_places_of_hosts) {
    static const struct {
        const char *value, *url; /* NULL: refused */
    } ROWS[] = {
        {"http://h", "http://h"},
        {"https://h:8/x", "https://h:8/x"},
        {"https://h///", "https://h"},
        {"", "DEFAULT"},
        {"http://", NULL},
        {"https://", NULL},
        {"https:///", NULL},
        {"ftp://h", NULL},
        {"h", NULL},
        {"http:/h/", NULL},
        {"//", NULL},
        {"https:/hh/", NULL},
    };
    char text[200], want[300];
    for (int registry = 0; registry <= 1; registry++)
        for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
            const char *name = registry ? "TRIREME_OLLAMA_REGISTRY" : "HF_ENDPOINT",
                       *url = ROWS[i].url;
            snprintf(text, sizeof text, "HOME=/h\n%s=%s", name, ROWS[i].value);
            set_environment(text);
            int rc = hub_places_read(&p, &err);
            if (url && !strcmp(url, "DEFAULT"))
                url = registry ? "https://registry.ollama.ai" : "https://huggingface.co";
            if (url) {
                EXPECT_EQ(rc, 0);
                EXPECT_STR(registry ? p.registry : p.endpoint, url);
            } else {
                snprintf(want, sizeof want, "%s is '%s': it should begin with https:// or http://",
                         name, ROWS[i].value);
                EXPECT_EQ(rc, ERR_INVALID);
                EXPECT_STR(err.text, want);
            }
            hub_places_release(&p);
        }
}

TEST(hub_places_offline_and_patience) {
    static const struct {
        const char *environment;
        bool offline;
        long patience_s; /* 0: refused */
    } ROWS[] = {
        {"HF_HUB_OFFLINE=1", true, 10},
        {"HF_HUB_OFFLINE=on", true, 10},
        {"HF_HUB_OFFLINE=Yes", true, 10},
        {"TRANSFORMERS_OFFLINE=TRUE", true, 10},
        {"HF_HUB_OFFLINE=0", false, 10},
        {"HF_HUB_OFFLINE=no", false, 10},
        {"HF_HUB_OFFLINE=11", false, 10},
        {"HF_HUB_OFFLINE=0\nTRANSFORMERS_OFFLINE=1", true, 10},
        {"HF_HUB_DOWNLOAD_TIMEOUT=1", false, 1},
        {"HF_HUB_DOWNLOAD_TIMEOUT=3600", false, 3600},
        {"HF_HUB_DOWNLOAD_TIMEOUT=", false, 10},
        {"HF_HUB_DOWNLOAD_TIMEOUT=3601", false, 0},
        {"HF_HUB_DOWNLOAD_TIMEOUT=0", false, 0},
        {"HF_HUB_DOWNLOAD_TIMEOUT=-1", false, 0},
        {"HF_HUB_DOWNLOAD_TIMEOUT=5s", false, 0},
        {"HF_HUB_DOWNLOAD_TIMEOUT=x", false, 0},
    };
    char text[200], want[200];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        snprintf(text, sizeof text, "HOME=/h\n%s", ROWS[i].environment);
        set_environment(text);
        int rc = hub_places_read(&p, &err);
        if (rc != (ROWS[i].patience_s ? 0 : ERR_INVALID) || p.offline != ROWS[i].offline ||
            (!rc && p.patience_s != ROWS[i].patience_s))
            check_fail(__FILE__, __LINE__, "row %zu: %d, %d, %ld", i, rc, p.offline, p.patience_s);
        if (rc) {
            snprintf(want, sizeof want,
                     "HF_HUB_DOWNLOAD_TIMEOUT is '%s': it should be seconds, from 1 to 3600",
                     strchr(ROWS[i].environment, '=') + 1);
            EXPECT_STR(err.text, want);
        }
        hub_places_release(&p);
    }
}

TEST(hub_places_of_the_token) {
    static const struct {
        const char *environment, *token; /* "-": none; NULL: refused */
    } ROWS[] = {
        {"HF_TOKEN=a\nHUGGING_FACE_HUB_TOKEN=b\nHF_TOKEN_PATH=F/one", "a"},
        {"HF_TOKEN=\nHUGGING_FACE_HUB_TOKEN= b \t", "b"},
        {"HF_TOKEN= \nHUGGING_FACE_HUB_TOKEN=b", "b"},
        {"HF_TOKEN_PATH=F/one", "in-one"},
        {"HF_HOME=F\nHF_TOKEN_PATH=F/one", "in-one"},
        {"HF_HOME=F", "in-home"},
        {"HF_HOME=F\nHF_TOKEN_PATH=F/none", "-"},
        {"HF_HOME=F/none", "-"},
        {"HF_HOME=F\nHF_TOKEN_PATH=F", "-"}, /* a folder */
        {"HF_TOKEN_PATH=F/empty", "-"},
        {"HF_TOKEN_PATH=F/large", "-"},
        {"HF_TOKEN=a b", NULL},
        {"HF_TOKEN=a\x1f"
         "b",
         NULL},
        {"HF_TOKEN=a\x7f", NULL},
        {"HF_TOKEN=\xc3\xa4", NULL},
        {"HF_TOKEN=!~", "!~"},
        {"HF_TOKEN_PATH=F/two", NULL}, /* two lines */
    };
    char large[4098];
    memset(large, 't', 4097);
    large[4097] = 0;
    folder_make();
    put_file("one", "\r\n in-one\r\n");
    put_file("token", "in-home");
    put_file("empty", " \n\t");
    put_file("two", "a\nb");
    put_file("large", large);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf text = {0};
        buf_add_str(&text, "HOME=/h\n");
        for (const char *c = ROWS[i].environment; *c; c++)
            if (*c == 'F' && c[-1] == '=' && (!c[1] || c[1] == '/' || c[1] == '\n'))
                buf_add_str(&text, folder);
            else
                buf_add_byte(&text, (uint8_t)*c);
        set_environment(buf_text(&text));
        buf_release(&text);
        int rc = hub_places_read(&p, &err);
        if (ROWS[i].token ? rc || strcmp(shown(p.token), ROWS[i].token) : rc != ERR_INVALID)
            check_fail(__FILE__, __LINE__, "row %zu: %d, '%s'", i, rc, shown(p.token));
        if (!ROWS[i].token)
            EXPECT(strstr(err.text, "has a space or a control character within"));
        hub_places_release(&p);
    }
    large[4096] = 0; /* as large as may be */
    put_file("large", large);
    snprintf(large, sizeof large, "HOME=/h\nHF_TOKEN_PATH=%s", in_folder("large"));
    set_environment(large);
    EXPECT_EQ(hub_places_read(&p, &err), 0);
    EXPECT(p.token && strlen(p.token) == 4096);
    hub_places_release(&p);
    folder_remove();
}
