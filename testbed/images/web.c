/* A web server in the role of the ones that upstream's runtime tests start: one page, its process ID in a
   file, and a first line in its log. Usage: PROGRAM PORT. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char PAGE[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

static void end(int number) {
    (void)number;
    _exit(0);
}

static void remember_pid(void) {
    FILE *file = fopen("/var/run/nginx.pid", "w");
    if (file) {
        fprintf(file, "%d\n", getpid());
        fclose(file);
    }
}

static void answer(int connection) {
    char request[4096];
    size_t length = 0;
    while (length < sizeof request - 1) {
        ssize_t got = read(connection, request + length, sizeof request - 1 - length);
        if (got <= 0) {
            return;
        }
        length += (size_t)got;
        request[length] = 0;
        if (strstr(request, "\r\n\r\n")) {
            break;
        }
    }
    if (write(connection, PAGE, sizeof PAGE - 1) < 0) {
        return;
    }
}

static int serve(int port) {
    int on = 1, off = 0, listener = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    const struct sockaddr *where = (const struct sockaddr *)&address;
    socklen_t size = sizeof address;
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        where = (const struct sockaddr *)&four;
        size = sizeof four;
    } else {
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, where, size) || listen(listener, 64)) {
        perror("cannot listen");
        return 1;
    }
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection >= 0) {
            answer(connection);
            close(connection);
        }
    }
}

int main(int count, char **words) {
    if (count == 2) {
        char *again[] = {"nginx: master process", words[1], "httpd", NULL};
        execv("/proc/self/exe", again);
        execv(words[0], again);
    }
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGQUIT, end);
    signal(SIGPIPE, SIG_IGN);
    printf("httpd: serves on port %s\n", words[1]);
    fflush(stdout);
    remember_pid();
    return serve(atoi(words[1]));
}
