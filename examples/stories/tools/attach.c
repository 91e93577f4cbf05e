/* attach PID: attaches to a process as a debugger does, and lets it go. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int count, char **words) {
    if (count != 2)
        return fprintf(stderr, "usage: attach PID\n"), 2;
    pid_t process = atoi(words[1]);
    if (ptrace(PTRACE_ATTACH, process, NULL, NULL) < 0)
        return perror("attach"), 1;
    waitpid(process, NULL, __WALL);
    ptrace(PTRACE_DETACH, process, NULL, NULL);
    return puts("attached"), 0;
}
