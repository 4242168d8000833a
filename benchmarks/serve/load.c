/* load PORT CONNECTIONS SECONDS TOPIC QUEUES SPAN: each connection pulls 32 messages, and again as
   soon as the answer is there, onward through its queue and back to its beginning before SPAN.
   Prints "PULLS BODY_BYTES SECONDS". Any answer but messages ends it with 1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, MOST = 1024, ROOM = 1 << 18 };
struct peer { long offset; int queue; size_t have; unsigned char *in; };

static struct peer peers[MOST];
static struct pollfd polled[MOST];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) { fprintf(stderr, "%s\n", what); exit(1); }

static uint32_t word(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static void ask(int i, const char *topic, long span) {
    unsigned char frame[1024];
    struct peer *peer = &peers[i];
    int size = snprintf((char *)frame + 8, sizeof frame - 8,
        "{\"code\":11,\"extFields\":{\"consumerGroup\":\"load\",\"topic\":\"%s\",\"queueId\":\"%d\","
        "\"queueOffset\":\"%ld\",\"maxMsgNums\":\"%d\",\"sysFlag\":\"4\",\"commitOffset\":\"0\","
        "\"suspendTimeoutMillis\":\"15000\",\"subscription\":\"*\",\"subVersion\":\"1\","
        "\"expressionType\":\"TAG\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        topic, peer->queue, peer->offset, BATCH, i);
    uint32_t length = htonl(size + 4), header = htonl(size);
    memcpy(frame, &length, 4);
    memcpy(frame + 4, &header, 4);
    if (write(polled[i].fd, frame, size + 8) != size + 8) fail("a request was not taken");
    peer->offset = peer->offset + 2 * BATCH <= span ? peer->offset + BATCH : 0;
}

int main(int count, char **argument) {
    if (count != 7) fail("load PORT CONNECTIONS SECONDS TOPIC QUEUES SPAN");
    int connections = atoi(argument[2]), queues = atoi(argument[5]), one = 1;
    double seconds = atof(argument[3]);
    long span = atol(argument[6]), pulls = 0;
    long long bytes = 0;
    if (connections < 1 || connections > MOST || span < BATCH) fail("out of range");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argument[1])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail("no connection");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        polled[i] = (struct pollfd){fd, POLLIN, 0};
        peers[i] = (struct peer){span / connections * i / BATCH * BATCH, i % queues, 0, malloc(ROOM)};
        if (peers[i].offset + BATCH > span) peers[i].offset = 0;
        ask(i, argument[4], span);
    }
    double began = now();
    while (now() - began < seconds) {
        if (poll(polled, connections, 10000) == 0) fail("no answer within ten seconds");
        for (int i = 0; i < connections; i++) {
            if (!polled[i].revents) continue;
            struct peer *peer = &peers[i];
            ssize_t got = read(polled[i].fd, peer->in + peer->have, ROOM - peer->have);
            if (got <= 0) fail("a connection was closed");
            peer->have += got;
            if (peer->have < 8 || peer->have < 4 + (size_t)word(peer->in)) {
                if (peer->have == ROOM) fail("an answer is too large");
                continue;
            }
            uint32_t header = word(peer->in + 4) & 0xFFFFFF;
            if (!memmem(peer->in + 8, header, "\"code\":0,", 9)) {
                fprintf(stderr, "%.*s\n", (int)header, (char *)peer->in + 8);
                fail("not messages");
            }
            pulls++;
            bytes += word(peer->in) - 4 - header;
            peer->have = 0;
            ask(i, argument[4], span);
        }
    }
    printf("%ld %lld %f\n", pulls, bytes, now() - began);
    return 0;
}
