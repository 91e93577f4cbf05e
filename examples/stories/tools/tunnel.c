/* tunnel NAME: makes the interface NAME, and answers every ping that comes through it, as a far end would. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PROTOCOL = 9, SOURCE = 12, TARGET = 16, ICMP = 1, REQUEST = 8, ANSWER = 0 };

/* An echo request becomes its answer. Its checksum changes by as much as its type does. */
static int turn(unsigned char *packet, ssize_t length) {
    unsigned char address[4];
    size_t head = (packet[0] & 15) * 4;
    if (packet[0] >> 4 != 4 || length < (ssize_t)head + 8 || packet[PROTOCOL] != ICMP || packet[head] != REQUEST)
        return 0;
    memcpy(address, packet + SOURCE, 4);
    memcpy(packet + SOURCE, packet + TARGET, 4);
    memcpy(packet + TARGET, address, 4);
    packet[head] = ANSWER;
    unsigned sum = (packet[head + 2] << 8 | packet[head + 3]) + (REQUEST << 8);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[head + 2] = sum >> 8;
    packet[head + 3] = sum & 0xff;
    return 1;
}

int main(int count, char **words) {
    unsigned char packet[4096];
    struct ifreq asked = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    if (count != 2 || strlen(words[1]) >= sizeof asked.ifr_name)
        return fprintf(stderr, "usage: tunnel NAME\n"), 2;
    strcpy(asked.ifr_name, words[1]);
    int device = open("/dev/net/tun", O_RDWR);
    if (device < 0)
        return perror("tunnel: /dev/net/tun"), 1;
    if (ioctl(device, TUNSETIFF, &asked) < 0)
        return perror("tunnel: TUNSETIFF"), 1;
    for (;;) {
        ssize_t length = read(device, packet, sizeof packet);
        if (length < 0)
            return perror("tunnel: read"), 1;
        if (turn(packet, length) && write(device, packet, length) < 0)
            return perror("tunnel: write"), 1;
    }
}
