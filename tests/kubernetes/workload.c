// SPDX-License-Identifier: Apache-2.0
// What the pods of the test cluster run. All but `pause` write files first, so that page cache outlives their cgroup.
//   workload pause                 wait for ever
//   workload crash DIR FILES       write, exit 1
//   workload work DIR FILES        write, exit 0
//   workload heal DIR FILES TIMES  write, exit 1 the first TIMES times, then wait for ever
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void end(int number) {
    (void)number;
    _exit(0);
}

static void reap(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

static void wait_for_ever(void) {
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGCHLD, reap);
    for (;;)
        pause();
}

static int write_file(const char *folder, const char *name, int pages) {
    char path[512], page[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    memset(page, 'z', sizeof page);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (file < 0) {
        perror(path);
        return -1;
    }
    for (int at = 0; at < pages; at++)
        if (write(file, page, sizeof page) != (ssize_t)sizeof page)
            return -1;
    fsync(file);
    close(file);
    return 0;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "pause";
    if (!strcmp(what, "pause"))
        wait_for_ever();
    if (count < 4)
        return 2;
    char name[64];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int at = 0; at < atoi(words[3]); at++) {
        snprintf(name, sizeof name, "%lld-%09ld-%d", (long long)now.tv_sec, now.tv_nsec, at);
        if (write_file(words[2], name, 2))
            return 3;
    }
    if (!strcmp(what, "heal") && count > 4) {
        for (int at = 0; at < atoi(words[4]); at++) {
            char mark[512];
            snprintf(mark, sizeof mark, "%s/healed-%d", words[2], at);
            int file = open(mark, O_WRONLY | O_CREAT | O_EXCL, 0644);
            if (file >= 0)
                return 1;
        }
        wait_for_ever();
    }
    fprintf(stderr, "cannot reach the database\n");
    return !strcmp(what, "work") ? 0 : 1;
}
