/* The shell of the stand-in for busybox: Debian's busybox, or bash where a variable has a name that is no identifier. The
   shell of Debian's busybox drops such variables; that of upstream's, which is newer, passes them on. */
#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

extern char **environ;

static int is_identifier(const char *variable) {
    if (isdigit((unsigned char)*variable)) {
        return 0;
    }
    while (isalnum((unsigned char)*variable) || *variable == '_') {
        variable++;
    }
    return *variable == '=';
}

int main(int count, char **words) {
    const char *shell = "/bin/busybox";
    (void)count;
    for (char **variable = environ; *variable; variable++) {
        if (!is_identifier(*variable)) {
            shell = "/bin/bash";
        }
    }
    execv(shell, words);
    perror(shell);
    return 127;
}
