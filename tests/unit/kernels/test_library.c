/* Where NVIDIA's libraries are found. */
#include "base/fsutil.h"
#include "check.h"
#include "kernels/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* As pip lays them out: PREFIX/bin has the program, PREFIX/lib/python3.X/site-packages the library. */
TEST(library_of_the_programs_own_environment_is_found) {
    char prefix[2048], folder[2300], file[2400], command[8192], path[4096] = "";
    ssize_t len = readlink("/proc/self/exe", prefix, sizeof prefix - 1);
    EXPECT(len > 0);
    prefix[len] = 0;
    *strrchr(prefix, '/') = 0;
    *strrchr(prefix, '/') = 0;
    snprintf(folder, sizeof folder, "%s/lib/python3.99/site-packages/nvidia/test%d/lib", prefix,
             (int)getpid());
    snprintf(file, sizeof file, "%s/libtrireme-test.so.9", folder);
    struct error err;
    EXPECT_EQ(dir_make(folder, 0755, &err), 0);
    Dl_info info;
    snprintf(command, sizeof command, "cp -L /proc/self/exe '%s'",
             file); /* cp itself: no library */
    EXPECT_EQ(system(command), 0);
    char package[64];
    snprintf(package, sizeof package, "nvidia/test%d/lib", (int)getpid());
    EXPECT(!library_open(NULL, "libtrireme-test.so.9", package, path, sizeof path));
    EXPECT_STR(path, "libtrireme-test.so.9");
    void *libm = dlopen("libm.so.6", RTLD_NOW);
    EXPECT(libm && dladdr(dlsym(libm, "cos"), &info));
    snprintf(command, sizeof command, "cp -L '%s' '%s'", info.dli_fname, file);
    EXPECT_EQ(system(command), 0);
    void *library = library_open(NULL, "libtrireme-test.so.9", package, path, sizeof path);
    EXPECT(library && dlsym(library, "cos"));
    EXPECT_STR(path, file);
    dlclose(library);
    dlclose(libm);
    snprintf(command, sizeof command, "rm -r '%s/lib/python3.99'", prefix);
    EXPECT_EQ(system(command), 0);
}
