/* What a pod does to keep a mount namespace with /data where only a thread or nothing is in it. See verify_tasks.rs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int signs;
static int unshared[2];

static void must(int ok) {
    if (!ok) _exit(1);
}

static void done(void) {
    must(openat(signs, "done", O_CREAT | O_WRONLY, 0644) >= 0);
    for (;;) pause();
}

/* To a mount namespace with an empty root. What the pod was given is locked there: it goes only as a whole. */
static void leave_mounts(void) {
    must(mount("none", "/proc", "tmpfs", 0, NULL) == 0 && chdir("/proc") == 0);
    must(syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0);
}

/* A process of the pod whose mounts are as they should be. */
static void *beside_a_good_process(void *unused) {
    int told[2];
    char byte = 0;
    must(pipe(told) == 0);
    if (fork() == 0) {
        must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        must(unshare(CLONE_NEWNS) == 0);
        leave_mounts();
        must(write(told[1], &byte, 1) == 1);
        for (;;) pause();
    }
    must(read(told[0], &byte, 1) == 1);
    done();
    return unused;
}

static void *in_its_own_mount_namespace(void *unused) {
    char byte = 0;
    must(unshare(CLONE_FS | CLONE_NEWNS) == 0);
    must(write(unshared[1], &byte, 1) == 1);
    for (;;) pause();
    return unused;
}

int main(int count, char **words) {
    pthread_t thread;
    char byte;
    must(count == 2);
    signs = open("/data/signs", O_RDONLY | O_DIRECTORY);
    must(signs >= 0);
    if (strcmp(words[1], "leader") == 0) {
        must(pthread_create(&thread, NULL, beside_a_good_process, NULL) == 0);
        syscall(SYS_exit, 0);
    }
    if (strcmp(words[1], "alone") == 0) {
        must(unshare(CLONE_NEWNS) == 0);
        leave_mounts();
        done();
    }
    must(pipe(unshared) == 0);
    must(pthread_create(&thread, NULL, in_its_own_mount_namespace, NULL) == 0);
    must(read(unshared[0], &byte, 1) == 1);
    leave_mounts();
    done();
}
