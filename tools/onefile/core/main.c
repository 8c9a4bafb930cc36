/* SPDX-License-Identifier: Apache-2.0
 * One file: the interpreter, and behind it in the same file the code of the standard library, our libraries and zombiescope.
 *
 * The file maps itself and modules are unmarshalled in place (inside/tail.py): nothing is unpacked, no folder is written,
 * and neither PYTHON* variables nor the current folder decide what is imported. The trailer is checked: a file that was
 * cut or stripped says so and ends with 70.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define START "import _tail\nfrom zombiescope.cli.main import run\nrun()\n"
#define BOOTS 16
#define THREAD_STACK (1 << 20) /* musl's own choice of 128 KiB is too little for Python */
#define EXIT_BUG 70

struct trailer {
    uint64_t boot, boots, index, index_size;
    char magic[8];
};
struct boot {
    char name[40];
    uint64_t at;
    uint32_t size, is_package;
};

static const unsigned char *content;
static size_t content_size;
static struct trailer trailer;
static struct boot boots[BOOTS];
static struct _frozen frozen[BOOTS + 1];

/* Python's allocator would take a gigabyte of addresses at once, and the limits of host/bounds.py, which are on addresses, would
 * let a stranger's file fill it. It reads its options before main. */
static const char arena[] = "MIMALLOC_ARENA_RESERVE";

__attribute__((constructor(101))) static void choose_arena(void)
{
    setenv(arena, "0", 1);
}

static void must(PyStatus status)
{
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

static int is_inside(uint64_t at, uint64_t size)
{
    return at <= content_size && size <= content_size - at;
}

static int map_file(const char *name)
{
    int file = open(name, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0)
        return -1;
    if (fstat(file, &about) != 0 || about.st_size < (off_t)sizeof trailer) {
        close(file);
        return -1;
    }
    content_size = about.st_size;
    content = mmap(NULL, content_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (content == MAP_FAILED)
        return -1;
    memcpy(&trailer, content + content_size - sizeof trailer, sizeof trailer);
    if (memcmp(trailer.magic, "ZSTAIL01", 8) || trailer.boots > BOOTS ||
        !is_inside(trailer.boot, trailer.boots * sizeof *boots) || !is_inside(trailer.index, trailer.index_size))
        return -1;
    memcpy(boots, content + trailer.boot, trailer.boots * sizeof *boots);
    for (size_t i = 0; i < trailer.boots; i++) {
        boots[i].name[sizeof boots[i].name - 1] = 0;
        if (!is_inside(boots[i].at, boots[i].size))
            return -1;
        frozen[i] = (struct _frozen){boots[i].name, content + boots[i].at, (int)boots[i].size, (int)boots[i].is_package};
    }
    return 0;
}

static PyModuleDef data_module = {PyModuleDef_HEAD_INIT, "_tail_data", NULL, -1, NULL, NULL, NULL, NULL, NULL};

static PyObject *make_data_module(void)
{
    PyObject *module = PyModule_Create(&data_module);
    PyObject *view = PyMemoryView_FromMemory((char *)content, content_size, PyBUF_READ);
    if (!module || !view || PyModule_Add(module, "view", view) < 0 ||
        PyModule_Add(module, "index", PyLong_FromUnsignedLongLong(trailer.index)) < 0 ||
        PyModule_Add(module, "index_size", PyLong_FromUnsignedLongLong(trailer.index_size)) < 0)
        return NULL;
    return module;
}

/* `sys.executable [-P] -m zombiescope ...`, as our own code starts itself: what follows is the command. */
static int without_own_flags(int argc, char **argv)
{
    int at = 1;
    if (at < argc && !strcmp(argv[at], "-P"))
        at++;
    if (at + 1 >= argc || strcmp(argv[at], "-m") || strcmp(argv[at + 1], "zombiescope"))
        return 0;
    argv[at + 1] = argv[0];
    return at + 1;
}

static void start_interpreter(int argc, char **argv, const char *self)
{
    PyPreConfig before;
    PyPreConfig_InitPythonConfig(&before);
    before.isolated = 1, before.use_environment = 0, before.parse_argv = 0;
    before.utf8_mode = 1; /* there are no locales in this file */
    before.allocator = PYMEM_ALLOCATOR_MIMALLOC; /* musl's own is 20 times slower on large blocks */
    must(Py_PreInitialize(&before));

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.install_signal_handlers = 1; /* as the plain interpreter: SIGPIPE ignored, SIGINT raises */
    config.site_import = 0, config.write_bytecode = 0, config.pathconfig_warnings = 0, config.parse_argv = 0;
    config.module_search_paths_set = 1; /* to none: everything is in the tail */
    must(PyConfig_SetBytesArgv(&config, argc, argv));
    must(PyConfig_SetBytesString(&config, &config.executable, self));
    must(PyConfig_SetBytesString(&config, &config.program_name, self));
    must(PyConfig_SetBytesString(&config, &config.home, "/nonexistent"));
    must(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

int main(int argc, char **argv)
{
    static char self[4096];
    unsetenv(arena); /* not for those that we start */
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0 || self[0] != '/') { /* no /proc here: the name that the kernel was given */
        const char *given = (const char *)getauxval(AT_EXECFN);
        memset(self, 0, sizeof self);
        strncpy(self, given ? given : argc ? argv[0] : "", sizeof self - 1);
    }
    if (map_file("/proc/self/exe") != 0 && map_file(self) != 0) {
        fprintf(stderr, "error: %s does not hold its program\n  why: the file was cut, stripped or cannot be read\n"
                        "  try: copy it again, and compare its sha256\n", self);
        return EXIT_BUG;
    }
    int skipped = without_own_flags(argc, argv);
    pthread_attr_t threads;
    pthread_attr_init(&threads);
    pthread_attr_setstacksize(&threads, THREAD_STACK);
    pthread_setattr_default_np(&threads);

    PyImport_FrozenModules = frozen;
    PyImport_AppendInittab("_tail_data", make_data_module);
    start_interpreter(argc - skipped, argv + skipped, self);
    PyObject *names = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyObject *ended = PyRun_String(START, Py_file_input, names, names);
    if (!ended)
        PyErr_Print(); /* SystemExit ends the process here, with its code */
    return Py_FinalizeEx() < 0 ? 120 : !ended;
}
