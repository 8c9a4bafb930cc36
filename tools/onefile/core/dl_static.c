/* SPDX-License-Identifier: Apache-2.0
 * dlopen for a program without a loader: what zombiescope takes through ctypes is linked in, and found here by name.
 * tests/house/test_one_file_names.py keeps the lists complete: a name that is asked for and missing here fails.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zstd.h>

/* musl 1.2.5 has none. */
static int renameat2(int folder, const char *name, int to_folder, const char *to_name, unsigned flags)
{
    return (int)syscall(SYS_renameat2, folder, name, to_folder, to_name, flags);
}

struct entry {
    const char *name;
    void *at;
};
#define ENTRY(name) {#name, (void *)name}

static const struct entry of_c[] = {
    ENTRY(klogctl), ENTRY(syscall), ENTRY(prctl),   ENTRY(setns),   ENTRY(shmat),  ENTRY(shmdt),  ENTRY(shmget), ENTRY(shmctl),
    ENTRY(mmap),    ENTRY(munmap),  ENTRY(mincore), ENTRY(madvise), ENTRY(writev), ENTRY(syncfs), ENTRY(swapon),
    ENTRY(swapoff), ENTRY(malloc),  ENTRY(free),    ENTRY(fstatfs), ENTRY(renameat2), {NULL, NULL},
};
static const struct entry of_zstd[] = {
    ENTRY(ZSTD_createDStream), ENTRY(ZSTD_freeDStream), ENTRY(ZSTD_decompressStream), ENTRY(ZSTD_isError), {NULL, NULL},
};
static const struct {
    const char *name;
    const struct entry *entries;
} libraries[] = {{"libzstd.so.1", of_zstd}};

static _Thread_local const char *why;

void *dlopen(const char *name, int mode)
{
    (void)mode;
    if (!name)
        return (void *)of_c;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (!strcmp(name, libraries[i].name))
            return (void *)libraries[i].entries;
    why = "the one-file build loads no libraries";
    return NULL;
}

void *dlsym(void *handle, const char *name)
{
    for (const struct entry *entry = handle; entry && entry->name; entry++)
        if (!strcmp(entry->name, name))
            return entry->at;
    why = "not in the one-file build";
    return NULL;
}

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}

char *dlerror(void)
{
    char *said = (char *)why;
    why = NULL;
    return said;
}
