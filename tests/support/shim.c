/* Stands between a process and the C library (LD_PRELOAD): records what is written to files called data.mdb,
 * in order, with the moments at which it was put on disk; or makes chosen calls fail. Does neither until told.
 *
 * Record: u8 kind ('w' write, 's' sync, 'n' note), u8 whether the file is open with O_DSYNC, u64 offset, u64 length,
 * then the bytes of a write. A note's number is its offset.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2, META = 4 };

typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
typedef ssize_t (*writev_call)(int, const struct iovec *, int);
typedef int (*sync_call)(int);

static write_call real_write;
static pwrite_call real_pwrite;
static writev_call real_writev;
static sync_call real_fdatasync, real_fsync;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record_file = -1;
static struct {
    int operations, error, partial;
    int64_t skip, times, calls;
} fault;

__attribute__((constructor)) static void find_real_calls(void)
{
    real_write = (write_call)dlsym(RTLD_NEXT, "write");
    real_pwrite = (pwrite_call)dlsym(RTLD_NEXT, "pwrite");
    real_writev = (writev_call)dlsym(RTLD_NEXT, "writev");
    real_fdatasync = (sync_call)dlsym(RTLD_NEXT, "fdatasync");
    real_fsync = (sync_call)dlsym(RTLD_NEXT, "fsync");
}

/* 0: not a file to look at; else WRITES or META, by how it is open. */
static int kind_of(int fd)
{
    char link[64], path[4096];
    ssize_t size;
    if (record_file < 0 && !fault.operations) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path);
    if (size < 9 || memcmp(path + size - 9, "/data.mdb", 9)) return 0;
    return fcntl(fd, F_GETFL) & O_DSYNC ? META : WRITES;
}

static void put(uint8_t kind, int how, uint64_t offset, uint64_t size, const struct iovec *parts)
{
    uint8_t head[18];
    if (record_file < 0) return;
    head[0] = kind;
    head[1] = how == META;
    memcpy(head + 2, &offset, 8);
    memcpy(head + 10, &size, 8);
    real_write(record_file, head, sizeof head);
    for (; parts && size; parts++) {
        uint64_t take = parts->iov_len < size ? parts->iov_len : size;
        real_write(record_file, parts->iov_base, take);
        size -= take;
    }
}

static int shall_fail(int operation)
{
    if (!(fault.operations & operation)) return 0;
    if (fault.calls++ < fault.skip || !fault.times) return 0;
    if (fault.times > 0) fault.times--;
    errno = fault.error;
    return 1;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    struct iovec part = {(void *)bytes, size};
    int how = kind_of(fd);
    ssize_t done;
    if (!how) return real_pwrite(fd, bytes, size, offset);
    pthread_mutex_lock(&lock);
    if (!shall_fail(how)) done = real_pwrite(fd, bytes, size, offset);
    else done = fault.partial ? real_pwrite(fd, bytes, size / 2, offset) : -1;
    if (done > 0) put('w', how, offset, done, &part);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
    return pwrite(fd, bytes, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    int how = kind_of(fd);
    off_t offset;
    ssize_t done;
    if (!how) return real_writev(fd, parts, count);
    pthread_mutex_lock(&lock);
    offset = lseek(fd, 0, SEEK_CUR);
    if (!shall_fail(how)) done = real_writev(fd, parts, count);
    else done = fault.partial ? real_writev(fd, parts, count / 2) : -1;
    if (done > 0) put('w', how, offset, done, parts);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    struct iovec part = {(void *)bytes, size};
    return kind_of(fd) ? writev(fd, &part, 1) : real_write(fd, bytes, size);
}

static int sync_file(sync_call real, int fd)
{
    int how = kind_of(fd), done;
    if (!how) return real(fd);
    pthread_mutex_lock(&lock);
    done = shall_fail(SYNCS) ? -1 : real(fd);
    if (!done) put('s', how, 0, 0, NULL);
    pthread_mutex_unlock(&lock);
    return done;
}

int fdatasync(int fd)
{
    return sync_file(real_fdatasync, fd);
}

int fsync(int fd)
{
    return sync_file(real_fsync, fd);
}

/* Told by the test. */

void shim_record(const char *path)
{
    record_file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
}

void shim_note(uint64_t number)
{
    pthread_mutex_lock(&lock);
    put('n', 0, number, 0, NULL);
    pthread_mutex_unlock(&lock);
}

/* Of the calls named by `operations`, let `skip` pass and make `times` fail (-1: all further ones). */
void shim_fail(int operations, int64_t skip, int64_t times, int error, int partial)
{
    pthread_mutex_lock(&lock);
    fault.operations = operations;
    fault.skip = skip;
    fault.times = times;
    fault.error = error;
    fault.partial = partial;
    fault.calls = 0;
    pthread_mutex_unlock(&lock);
}

int64_t shim_calls(void)
{
    return fault.calls;
}
