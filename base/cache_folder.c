#include "base/cache_folder.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"

static int find_build_id(struct dl_phdr_info *info, size_t size, void *ctx) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint8_t *p = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr),
                      *end = p + segment->p_memsz;
        while (segment->p_type == PT_NOTE && (size_t)(end - p) > sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, p, sizeof note);
            const uint8_t *id = p + sizeof note + ((note.n_namesz + 3) & ~3u);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp(p + sizeof note, "GNU", 4))
                *(struct u128 *)ctx = hash128(id, note.n_descsz, 1);
            p = id + ((note.n_descsz + 3) & ~3u);
        }
    }
    return 1; /* the program itself comes first; nothing else is looked at */
}

struct u128 program_build(void) {
    struct u128 build = {0, 0};
    dl_iterate_phdr(find_build_id, &build);
    return build;
}

static char *default_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        return path_join(cache, "trireme");
    return home && *home == '/' ? path_join(home, ".cache/trireme") : NULL;
}

char *cache_folder_open(const char *wanted, const char *what) {
    struct error err;
    char *path = !wanted || !*wanted      ? default_folder()
                 : strcmp(wanted, "none") ? mem_strdup(wanted)
                                          : NULL;
    if (!path || (!dir_make(path, 0700, &err) && !access(path, W_OK)))
        return path;
    if (wanted && *wanted)
        log_warn("%s are not kept: the folder '%s' cannot be written", what, path);
    mem_free(path);
    return NULL;
}

bool cache_folder_is_memory(const char *folder) {
    struct statfs fs;
    return !statfs(folder, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

int cache_file_open(const char *path, uint64_t *len) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return -1;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH))) {
        *len = (uint64_t)st.st_size;
        return fd;
    }
    close(fd);
    return -1;
}
