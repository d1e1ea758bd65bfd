/* Preloaded into a broker: each write to a .log file of the topic "t" first waits as many milliseconds as the file slow-ms in its log
   directory says. Two writes to a partition come one after the other, because the broker writes them so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_for_disk(int fd) {
    char link[64], path[1024];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 16);
    if (size < 4 || memcmp(path + size - 4, ".log", 4)) return;
    path[size] = 0;
    char *topic = strstr(path, "/t-0/");
    if (!topic) return;
    strcpy(topic, "/slow-ms");
    FILE *file = fopen(path, "r");
    if (!file) return;
    unsigned ms = 0;
    if (fscanf(file, "%u", &ms) != 1) ms = 0;
    fclose(file);
    if (ms) usleep(ms * 1000);
}

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "write");
    wait_for_disk(fd);
    return next(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t position) {
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (!next) next = dlsym(RTLD_NEXT, "pwrite64");
    wait_for_disk(fd);
    return next(fd, data, size, position);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*next)(int, const struct iovec *, int);
    if (!next) next = dlsym(RTLD_NEXT, "writev");
    wait_for_disk(fd);
    return next(fd, parts, count);
}
