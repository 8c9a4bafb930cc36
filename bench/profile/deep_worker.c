// SPDX-License-Identifier: Apache-2.0
// Stacks as services built with frame pointers have them: a tree of small functions walked to depths of 6 to 49, and at its
// leaves arithmetic, memory, files, pipes and sorting. Built and run by bench_profile.py: deep_worker SECONDS.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))

static volatile uint64_t kept;
static uint64_t dice = 88172645463325252ull;
static int ends[2], own;

static uint64_t roll(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

APART static void do_arithmetic(void) {
    uint64_t sum = 1469598103934665603ull;
    for (int i = 0; i < 3000; i++) sum = (sum ^ (uint64_t)i) * 1099511628211ull;
    kept += sum;
}

APART static void do_memory(void) {
    size_t size = 1 << 18;
    char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return;
    for (size_t at = 0; at < size; at += 4096) room[at] = 1;
    munmap(room, size);
}

APART static void do_pipe(void) {
    char buffer[4096] = {0};
    for (int i = 0; i < 8; i++)
        if (write(ends[1], buffer, sizeof buffer) < 0 || read(ends[0], buffer, sizeof buffer) < 0) return;
}

APART static void do_stat(void) {
    struct stat found;
    for (int i = 0; i < 10; i++) kept += (uint64_t)stat("/usr/bin/env", &found);
}

APART static void do_read(void) {
    char buffer[8192];
    if (pread(own, buffer, sizeof buffer, (off_t)(roll() % 2) * 4096) > 0) kept += (uint64_t)buffer[5];
}

static int by_value(const void *one, const void *other) {
    int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

APART static void do_sort(void) {
    int numbers[256];
    for (int i = 0; i < 256; i++) numbers[i] = (int)roll();
    qsort(numbers, 256, sizeof *numbers, by_value);
    kept += (uint64_t)numbers[3];
}

APART static void do_leaf(void) {
    switch (roll() % 8) {
    case 0: do_memory(); break;
    case 1: do_pipe(); break;
    case 2: do_stat(); break;
    case 3: do_read(); break;
    case 4: do_sort(); break;
    default: do_arithmetic();
    }
    kept++; // a call is not the last thing a function does: it stays on the stack
}

typedef void Step(int depth);
static Step *const steps[8];
#define STEP(n)                                                                  \
    APART static void step_##n(int depth) {                                      \
        if (depth > 0) steps[roll() & ((depth & 3) ? 1 : 7)](depth - 1);         \
        if (depth <= 0 || (roll() & 15) == 0) do_leaf();                         \
        kept++;                                                                  \
    }
STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
static Step *const steps[8] = {step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7};

int main(int count, char **words) {
    struct timespec now;
    if (count < 2 || pipe(ends)) return 1;
    own = open(words[0], O_RDONLY);
    dice ^= (uint64_t)getpid() * 2654435761u;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t over = now.tv_sec + atoi(words[1]);
    do {
        for (int i = 0; i < 200; i++) steps[roll() & 7](6 + (int)(roll() % 44));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < over);
    return 0;
}
