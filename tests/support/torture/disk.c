/* Stands between a process and the C library (LD_PRELOAD), and looks at every call that changes files below one folder: records them,
 * ends the process at one of them, or makes some of them fail: of all threads, or of those that said that they are meant. Does nothing
 * until told.
 *
 * Record: u8 kind, u8 whether the file is open with O_DSYNC, u16 bytes of a path, u16 bytes of a second one, u64 offset, u64 length; then
 * the paths and the bytes of a write. Kinds: c create, d make a folder, m rename, l link, u unlink, r remove a folder, t truncate (to offset),
 * w write, s sync, n note (its number is the offset).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL = 1, FAIL = 2, SHORT = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record_file = -1;
static char root[PATH_MAX];
static size_t root_size;
static struct {
    int act, error, meant_only;
    int64_t skip, times, calls, met;
} plan;
/* Whether this thread is one of those that are meant. */
static __thread int meant;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t plain_write(int fd, const void *bytes, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    return real(fd, bytes, size);
}

/* Whether a path lies below the folder; `out` gets it, absolute. */
static int below(int folder, const char *path, char *out)
{
    char link[64];
    ssize_t size;
    if (!root_size || !path) return 0;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX) return 0;
        strcpy(out, path);
    } else {
        if (folder == AT_FDCWD) {
            if (!getcwd(out, PATH_MAX)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            size = readlink(link, out, PATH_MAX - 1);
            if (size < 0) return 0;
            out[size] = 0;
        }
        if (strlen(out) + strlen(path) + 2 > PATH_MAX) return 0;
        strcat(out, "/");
        strcat(out, path);
    }
    return !strncmp(out, root, root_size) && out[root_size] == '/';
}

/* The same of an open file. 2: it is open with O_DSYNC. */
static int open_below(int fd, char *out)
{
    char link[64];
    ssize_t size;
    if (!root_size) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, out, PATH_MAX - 1);
    if (size < 0) return 0;
    out[size] = 0;
    if (strncmp(out, root, root_size) || (out[root_size] != '/' && out[root_size])) return 0;
    return fcntl(fd, F_GETFL) & O_DSYNC ? 2 : 1;
}

static void put(char kind, int direct, const char *path, const char *other, uint64_t offset, uint64_t size, const struct iovec *parts)
{
    uint8_t head[22];
    uint16_t first = path ? strlen(path) : 0, second = other ? strlen(other) : 0;
    if (record_file < 0) return;
    head[0] = kind;
    head[1] = direct;
    memcpy(head + 2, &first, 2);
    memcpy(head + 4, &second, 2);
    memcpy(head + 6, &offset, 8);
    memcpy(head + 14, &size, 8);
    plain_write(record_file, head, sizeof head);
    if (first) plain_write(record_file, path, first);
    if (second) plain_write(record_file, other, second);
    for (; parts && size; parts++) {
        uint64_t take = parts->iov_len < size ? parts->iov_len : size;
        plain_write(record_file, parts->iov_base, take);
        size -= take;
    }
}

/* What the plan says of this call: 0 nothing; FAIL (errno is set); SHORT. May not return. */
static int planned(void)
{
    if (!plan.act || (plan.meant_only && !meant)) return 0;
    if (plan.calls++ < plan.skip || !plan.times) return 0;
    if (plan.times > 0) plan.times--;
    plan.met++;
    if (plan.act == KILL) raise(SIGKILL);
    errno = plan.error;
    return plan.act;
}

static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset, int placed)
{
    char path[PATH_MAX];
    int how = open_below(fd, path), act;
    ssize_t done;
    size_t size = 0;
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
    if (!real_pwritev) real_pwritev = (ssize_t (*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "pwritev");
    if (!how) return placed ? real_pwritev(fd, parts, count, offset) : real(fd, parts, count);
    pthread_mutex_lock(&lock);
    if (!placed) offset = lseek(fd, 0, SEEK_CUR);
    act = planned();
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    if (act == FAIL) done = -1;
    else if (act == SHORT) {
        struct iovec half = {parts[0].iov_base, parts[0].iov_len / 2};
        done = placed ? real_pwritev(fd, &half, 1, offset) : real(fd, &half, 1);
    } else done = placed ? real_pwritev(fd, parts, count, offset) : real(fd, parts, count);
    if (done > 0) put('w', how == 2, path, NULL, offset, done, parts);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    struct iovec part = {(void *)bytes, size};
    return written(fd, &part, 1, offset, 1);
}
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset) { return pwrite(fd, bytes, size, offset); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return written(fd, parts, count, 0, 0); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return written(fd, parts, count, offset, 1); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) { return written(fd, parts, count, offset, 1); }
ssize_t write(int fd, const void *bytes, size_t size)
{
    struct iovec part = {(void *)bytes, size};
    return root_size ? written(fd, &part, 1, 0, 0) : plain_write(fd, bytes, size);
}

static int synced(int fd, const char *name)
{
    char path[PATH_MAX];
    int how = open_below(fd, path), done;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (!how) return real(fd);
    pthread_mutex_lock(&lock);
    done = planned() ? -1 : real(fd);
    if (!done) put('s', 0, path, NULL, 0, 0, NULL);
    pthread_mutex_unlock(&lock);
    return done;
}
int fsync(int fd) { return synced(fd, "fsync"); }
int fdatasync(int fd) { return synced(fd, "fdatasync"); }

static int opened(const char *name, int folder, const char *path, int flags, mode_t mode)
{
    char where[PATH_MAX];
    struct stat there;
    int done, fresh, at = !strncmp(name, "openat", 6);
    void *real = dlsym(RTLD_NEXT, name);
    int inside = (flags & O_CREAT) && below(folder, path, where);
    if (inside) {
        pthread_mutex_lock(&lock);
        fresh = stat(where, &there) < 0;
        if (fresh && planned()) {
            pthread_mutex_unlock(&lock);
            return -1;
        }
    }
    done = at ? ((int (*)(int, const char *, int, ...))real)(folder, path, flags, mode) : ((int (*)(const char *, int, ...))real)(path, flags, mode);
    if (inside) {
        int kept = errno;
        if (done >= 0 && fresh) put('c', 0, where, NULL, 0, 0, NULL);
        pthread_mutex_unlock(&lock);
        errno = kept;
    }
    return done;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
int open(const char *path, int flags, ...) { MODE(flags) return opened("open", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened("open64", AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened("openat", folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened("openat64", folder, path, flags, mode); }

/* A call on one path. */
#define ON_PATH(kind, name, folder, path, real_call) \
    char where[PATH_MAX]; \
    int done; \
    if (!below(folder, path, where)) return real_call; \
    pthread_mutex_lock(&lock); \
    done = planned() ? -1 : real_call; \
    if (!done) put(kind, 0, where, NULL, 0, 0, NULL); \
    pthread_mutex_unlock(&lock); \
    return done

int mkdir(const char *path, mode_t mode)
{
    REAL(int, "mkdir", const char *, mode_t);
    ON_PATH('d', "mkdir", AT_FDCWD, path, real(path, mode));
}
int mkdirat(int folder, const char *path, mode_t mode)
{
    REAL(int, "mkdirat", int, const char *, mode_t);
    ON_PATH('d', "mkdirat", folder, path, real(folder, path, mode));
}
int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    ON_PATH('u', "unlink", AT_FDCWD, path, real(path));
}
int unlinkat(int folder, const char *path, int flags)
{
    REAL(int, "unlinkat", int, const char *, int);
    ON_PATH(flags & AT_REMOVEDIR ? 'r' : 'u', "unlinkat", folder, path, real(folder, path, flags));
}
int rmdir(const char *path)
{
    REAL(int, "rmdir", const char *);
    ON_PATH('r', "rmdir", AT_FDCWD, path, real(path));
}
static int named_anew(char kind, const char *from, const char *to, int (*real)(const char *, const char *))
{
    char one[PATH_MAX], two[PATH_MAX];
    int done;
    if (!below(AT_FDCWD, from, one) || !below(AT_FDCWD, to, two)) return real(from, to);
    pthread_mutex_lock(&lock);
    done = planned() ? -1 : real(from, to);
    if (!done) put(kind, 0, one, two, 0, 0, NULL);
    pthread_mutex_unlock(&lock);
    return done;
}
int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    return named_anew('m', from, to, real);
}
int link(const char *from, const char *to)
{
    REAL(int, "link", const char *, const char *);
    return named_anew('l', from, to, real);
}
static int cut(int fd, off_t size, const char *name)
{
    char path[PATH_MAX];
    int how = open_below(fd, path), done;
    int (*real)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, name);
    if (!how) return real(fd, size);
    pthread_mutex_lock(&lock);
    done = planned() ? -1 : real(fd, size);
    if (!done) put('t', 0, path, NULL, size, 0, NULL);
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate(int fd, off_t size) { return cut(fd, size, "ftruncate"); }
int ftruncate64(int fd, off_t size) { return cut(fd, size, "ftruncate64"); }

static void *mapped(const char *name, void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    char path[PATH_MAX];
    void *(*real)(void *, size_t, int, int, int, off_t) = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, name);
    if (plan.act == FAIL && fd >= 0 && open_below(fd, path)) {
        int act;
        pthread_mutex_lock(&lock);
        act = planned();
        pthread_mutex_unlock(&lock);
        if (act) return MAP_FAILED;
    }
    return real(at, size, protection, flags, fd, offset);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) { return mapped("mmap", at, size, protection, flags, fd, offset); }
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) { return mapped("mmap64", at, size, protection, flags, fd, offset); }

/* Told by the test. */

void disk_watch(const char *folder, const char *record)
{
    pthread_mutex_lock(&lock);
    if (record_file >= 0) close(record_file);
    root_size = 0;
    record_file = *record ? open(record, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    strcpy(root, folder);
    root_size = strlen(folder);
    pthread_mutex_unlock(&lock);
}

void disk_note(uint64_t number)
{
    pthread_mutex_lock(&lock);
    put('n', 0, NULL, NULL, number, 0, NULL);
    pthread_mutex_unlock(&lock);
}

/* Let `skip` calls pass, then do something to `times` of them (-1: all further ones). meant_only: of threads that are meant alone. */
void disk_plan(int act, int64_t skip, int64_t times, int error, int meant_only)
{
    pthread_mutex_lock(&lock);
    plan.act = act;
    plan.meant_only = meant_only;
    plan.skip = skip;
    plan.times = times;
    plan.error = error;
    plan.calls = plan.met = 0;
    pthread_mutex_unlock(&lock);
}

int64_t disk_calls(void)
{
    return plan.calls;
}

/* How many calls the plan did something to. */
int64_t disk_met(void)
{
    return plan.met;
}

void disk_mean(int on)
{
    meant = on;
}
