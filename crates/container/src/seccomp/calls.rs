//! The system calls by what they are for.
//!
//! Names that only some architectures or newer kernels have are listed with the others: the compiler of the profile
//! ignores those that it does not know.

/// The call tables that programs of this machine use.
pub(super) const ARCHITECTURES: &[&str] = if cfg!(target_arch = "x86_64") {
    &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
} else if cfg!(target_arch = "aarch64") {
    &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]
} else if cfg!(target_arch = "s390x") {
    &["SCMP_ARCH_S390X", "SCMP_ARCH_S390"]
} else if cfg!(target_arch = "riscv64") {
    &["SCMP_ARCH_RISCV64"]
} else {
    &[]
};

const FILES: &str = "
    open openat openat2 creat close close_range dup dup2 dup3 pipe pipe2 fcntl fcntl64 ioctl flock
    read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2 lseek _llseek readahead
    sendfile sendfile64 splice tee vmsplice copy_file_range
    fsync fdatasync sync syncfs sync_file_range
    truncate truncate64 ftruncate ftruncate64 fallocate fadvise64 fadvise64_64 cachestat
    name_to_handle_at";

const DIRECTORIES: &str = "
    getcwd chdir fchdir getdents getdents64 mkdir mkdirat rmdir mknod mknodat
    link linkat symlink symlinkat readlink readlinkat unlink unlinkat rename renameat renameat2
    inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_mark";

const ATTRIBUTES: &str = "
    stat stat64 lstat lstat64 fstat fstat64 fstatat64 newfstatat statx access faccessat faccessat2
    statfs statfs64 fstatfs fstatfs64 statmount listmount umask
    chmod fchmod fchmodat fchmodat2 chown chown32 lchown lchown32 fchown fchown32 fchownat
    utime utimes futimesat utimensat utimensat_time64
    getxattr lgetxattr fgetxattr getxattrat setxattr lsetxattr fsetxattr setxattrat
    listxattr llistxattr flistxattr listxattrat removexattr lremovexattr fremovexattr removexattrat";

const WAITING: &str = "
    poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait epoll_wait_old epoll_pwait epoll_pwait2
    eventfd eventfd2 signalfd signalfd4
    io_setup io_submit io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64
    futex futex_time64 futex_wait futex_waitv futex_wake futex_requeue get_robust_list set_robust_list";

const MEMORY: &str = "
    brk mmap mmap2 munmap mremap mprotect madvise mincore msync remap_file_pages mseal
    mlock mlock2 mlockall munlock munlockall membarrier memfd_create memfd_secret
    pkey_alloc pkey_free pkey_mprotect map_shadow_stack process_mrelease";

const PROCESSES: &str = "
    execve execveat exit exit_group fork vfork wait4 waitid waitpid pidfd_open pidfd_send_signal
    getpid getppid gettid getpgid getpgrp getsid setpgid setsid
    prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules
    set_tid_address get_thread_area set_thread_area rseq restart_syscall uretprobe
    getrlimit setrlimit ugetrlimit prlimit64 getrusage times sysinfo uname getcpu getrandom
    ptrace process_vm_readv process_vm_writev";

const SCHEDULING: &str = "
    sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam
    sched_setparam sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min
    sched_rr_get_interval sched_rr_get_interval_time64 getpriority setpriority ioprio_get ioprio_set";

const USERS: &str = "
    getuid getuid32 geteuid geteuid32 getgid getgid32 getegid getegid32 getresuid getresuid32 getresgid
    getresgid32 getgroups getgroups32 setuid setuid32 setgid setgid32 setreuid setreuid32 setregid
    setregid32 setresuid setresuid32 setresgid setresgid32 setfsuid setfsuid32 setfsgid setfsgid32
    setgroups setgroups32 capget capset";

const SIGNALS: &str = "
    kill tkill tgkill pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_tgsigqueueinfo
    rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 sigaltstack sigprocmask sigreturn";

const TIME: &str = "
    time gettimeofday nanosleep alarm getitimer setitimer adjtimex clock_adjtime clock_adjtime64
    clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64
    timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64
    timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64";

const SOCKETS: &str = "
    socketpair socketcall bind listen accept accept4 connect shutdown getsockname getpeername getsockopt
    setsockopt send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg recvmmsg_time64";

const MESSAGES: &str = "
    ipc msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64
    shmat shmctl shmdt shmget mq_open mq_unlink mq_notify mq_getsetattr
    mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64";

const OF_THIS_ARCHITECTURE: &str = if cfg!(target_arch = "x86_64") {
    "arch_prctl modify_ldt"
} else if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
    "arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls"
} else if cfg!(target_arch = "s390x") {
    "s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr"
} else if cfg!(target_arch = "riscv64") {
    "riscv_flush_icache riscv_hwprobe"
} else {
    ""
};

/// What every container may call.
pub(super) fn always() -> Vec<&'static str> {
    let groups = [
        FILES,
        DIRECTORIES,
        ATTRIBUTES,
        WAITING,
        MEMORY,
        PROCESSES,
        SCHEDULING,
        USERS,
        SIGNALS,
        TIME,
        SOCKETS,
        MESSAGES,
        OF_THIS_ARCHITECTURE,
    ];
    groups.into_iter().flat_map(str::split_whitespace).collect()
}

/// What only a container with the capability may call. In a user namespace the capability holds for what
/// belongs to that namespace, and the kernel itself refuses the rest.
pub(super) const WITH_CAPABILITY: [(&str, &str); 14] = [
    ("CAP_BPF", "bpf"),
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    ("CAP_PERFMON", "perf_event_open"),
    (
        "CAP_SYS_ADMIN",
        "clone clone3 unshare setns mount umount umount2 mount_setattr move_mount open_tree fsopen fsconfig \
         fsmount fspick sethostname setdomainname quotactl quotactl_fd fanotify_init bpf perf_event_open \
         lookup_dcookie syslog",
    ),
    ("CAP_SYSLOG", "syslog"),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "init_module finit_module delete_module"),
    ("CAP_SYS_NICE", "get_mempolicy set_mempolicy set_mempolicy_home_node mbind"),
    ("CAP_SYS_PACCT", "acct"),
    ("CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise"),
    ("CAP_SYS_RAWIO", "ioperm iopl"),
    ("CAP_SYS_TIME", "settimeofday stime clock_settime clock_settime64"),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
];
