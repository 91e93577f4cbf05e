/* hello-fuse DIRECTORY: mounts a FUSE filesystem with one file in it, `hello`, and serves it until it ends. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOT = FUSE_ROOT_ID, HELLO = 2 };
static const char text[] = "hello from a filesystem of the pod's own\n";
static int device;

static struct fuse_attr attributes(unsigned long long node) {
    struct fuse_attr found = { .ino = node, .mode = S_IFDIR | 0755, .nlink = 2 };
    if (node == HELLO) {
        found.mode = S_IFREG | 0444;
        found.nlink = 1;
        found.size = sizeof text - 1;
    }
    return found;
}

static void answer(const struct fuse_in_header *to, int error, const void *body, size_t length) {
    struct fuse_out_header head = { .len = sizeof head + length, .error = error, .unique = to->unique };
    struct iovec parts[2] = { { &head, sizeof head }, { (void *)body, length } };
    if (writev(device, parts, 2) < 0 && errno != ENOENT)
        perror("hello-fuse: answer");
}

static void list(const struct fuse_in_header *head, const struct fuse_read_in *asked) {
    char entry[FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 5)] = { 0 };
    struct fuse_dirent *one = (struct fuse_dirent *)entry;
    one->ino = HELLO;
    one->off = 1;
    one->namelen = 5;
    one->type = S_IFREG >> 12;
    memcpy(one->name, "hello", 5);
    answer(head, 0, entry, asked->offset == 0 ? sizeof entry : 0);
}

static void serve(const struct fuse_in_header *head, const void *body) {
    switch (head->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
        return answer(head, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = { .nodeid = HELLO, .attr = attributes(HELLO) };
        int found = head->nodeid == ROOT && strcmp(body, "hello") == 0;
        return found ? answer(head, 0, &out, sizeof out) : answer(head, -ENOENT, NULL, 0);
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = { .attr = attributes(head->nodeid) };
        return answer(head, 0, &out, sizeof out);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        struct fuse_open_out out = { .fh = head->nodeid };
        return answer(head, 0, &out, sizeof out);
    }
    case FUSE_READ: {
        const struct fuse_read_in *asked = body;
        size_t size = sizeof text - 1, from = asked->offset < size ? asked->offset : size;
        return answer(head, 0, text + from, size - from < asked->size ? size - from : asked->size);
    }
    case FUSE_READDIR:
        return list(head, body);
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        return answer(head, 0, NULL, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return;
    default:
        return answer(head, -ENOSYS, NULL, 0);
    }
}

int main(int count, char **words) {
    static char request[1 << 17] __attribute__((aligned(8)));
    char options[80];
    if (count != 2)
        return fprintf(stderr, "usage: hello-fuse DIRECTORY\n"), 2;
    device = open("/dev/fuse", O_RDWR);
    if (device < 0)
        return perror("hello-fuse: /dev/fuse"), 1;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("hello", words[1], "fuse.hello", MS_NOSUID | MS_NODEV, options) < 0)
        return perror("hello-fuse: mount"), 1;
    for (;;) {
        ssize_t length = read(device, request, sizeof request);
        if (length < 0 && errno == ENODEV)
            return 0;
        if (length < 0 && errno != EINTR && errno != ENOENT)
            return perror("hello-fuse: read"), 1;
        if (length > 0)
            serve((struct fuse_in_header *)request, request + sizeof(struct fuse_in_header));
    }
}
