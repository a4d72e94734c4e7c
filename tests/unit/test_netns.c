/* SPDX-License-Identifier: Apache-2.0 */
/* src/keeper/net*.c, each test in a network namespace of its own, as root of a user namespace: what an ordinary user can have. */
#include "keeper/net.h"

#include "test.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { PATIENCE_MS = 10000 };

static int fds[NET_FD_MAX];

/* --- the namespace ----------------------------------------------------------------------------------------- */

static void skip_for(const char *what, int error)
{
	char reason[160];

	(void)snprintf(reason, sizeof(reason), "%s: %s", what, strerror(error));
	SKIP(reason);
}

static void enter(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	own_fd fd = -1;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		skip_for("no user and network namespaces here", errno);
	/* The leak sanitizer looks at us as a debugger does. */
	CHECK_EQ_INT(prctl(PR_SET_DUMPABLE, 1), 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	if (ioctl(fd, SIOCSIFFLAGS, &r) < 0)
		skip_for("a user namespace gives no power over a network here", errno);
}

static void prepare(void)
{
	const char *what = NULL;
	int r;

	r = net_prepare(fds, &what);
	if (r == -EPROTONOSUPPORT || r == -EOPNOTSUPP)
		skip_for("no nf_tables here", -r);
	if (r < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", what, strerror(-r));
}

static void done(void)
{
	for (unsigned int i = 0; i < NET_FD_MAX; i++)
		fd_close(&fds[i]);
}

static struct net_route route(const char *text, unsigned int bits, bool refused)
{
	struct net_route r = { .address = { .v6 = strchr(text, ':') != NULL },
			       .bits = (uint8_t)bits,
			       .refused = refused };

	CHECK_EQ_INT(inet_pton(r.address.v6 ? AF_INET6 : AF_INET, text, r.address.a), 1);
	return r;
}

/* A box whose rules name two ranges, and that may ask for names. */
static unsigned int usual(struct net_route ret[4])
{
	ret[0] = route(NET_V4_RANGE, NET_V4_BITS, false);
	ret[1] = route("10.1.0.0", 16, false);
	ret[2] = route("2001:db8::", 32, false);
	ret[3] = route("2001:db8:1::", 48, true);
	return 4;
}

static void enter_usual(void)
{
	struct net_route routes[4];
	unsigned int n = usual(routes);

	enter();
	prepare();
	CHECK_EQ_INT(net_routes(NULL, 0, routes, n), 0);
}

/* How many connections the kernel keeps for this namespace; there is no such file when nobody on this machine has any. */
static long tracked(void)
{
	own_fd fd = open("/proc/sys/net/netfilter/nf_conntrack_count", O_RDONLY | O_CLOEXEC);
	char text[16] = "";

	if (fd < 0) {
		CHECK_EQ_INT(errno, ENOENT);
		return 0;
	}
	CHECK(read(fd, text, sizeof(text) - 1) > 0);
	return strtol(text, NULL, 10);
}

/* --- sockets ----------------------------------------------------------------------------------------------- */

union address {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address(const char *text, uint16_t port, union address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (strchr(text, ':') == NULL) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		CHECK_EQ_INT(inet_pton(AF_INET, text, &ret->v4.sin_addr), 1);
		return sizeof(ret->v4);
	}
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(port);
	CHECK_EQ_INT(inet_pton(AF_INET6, text, &ret->v6.sin6_addr), 1);
	if (IN6_IS_ADDR_LINKLOCAL(&ret->v6.sin6_addr))
		ret->v6.sin6_scope_id = if_nametoindex("lo");
	return sizeof(ret->v6);
}

/* "[address]:port", IPv4 by its own name whatever family it comes in. */
static const char *shown(const union address *a)
{
	static char text[80];
	char ip[INET6_ADDRSTRLEN];

	if (a->sa.sa_family == AF_INET)
		(void)inet_ntop(AF_INET, &a->v4.sin_addr, ip, sizeof(ip));
	else if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
		(void)inet_ntop(AF_INET, a->v6.sin6_addr.s6_addr + 12, ip, sizeof(ip));
	else
		(void)inet_ntop(AF_INET6, &a->v6.sin6_addr, ip, sizeof(ip));
	(void)snprintf(text, sizeof(text), "[%s]:%u", ip, ntohs(a->v4.sin_port));
	return text;
}

static int make(int family, int type, int protocol)
{
	const struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	CHECK(fd >= 0);
	CHECK_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	CHECK_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	return fd;
}

/* A socket that is connected, from `from` if that is not NULL, or -errno. */
static int dial_from(const char *from, const char *to, uint16_t port, int type)
{
	union address a;
	socklen_t len = address(to, port, &a);
	own_fd fd = make(a.sa.sa_family, type, 0);

	if (from != NULL) {
		len = address(from, 0, &a);
		CHECK_EQ_INT(bind(fd, &a.sa, len), 0);
		len = address(to, port, &a);
	}
	if (connect(fd, &a.sa, len) < 0)
		return -errno;
	return fd_take(&fd);
}

static int dial(const char *to, uint16_t port, int type)
{
	return dial_from(NULL, to, port, type);
}

static bool is_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, PATIENCE_MS) == 1;
}

static int accept_one(int listener)
{
	int fd;

	CHECK(is_ready(listener));
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	return fd;
}

static const char *own_name(int fd)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	CHECK_EQ_INT(getsockname(fd, &a.sa, &len), 0);
	return shown(&a);
}

/* Bytes in both directions, more than one packet of them. */
static void talk(int a, int b)
{
	static char out[100000], in[sizeof(out)];

	memset(out, 'x', sizeof(out));
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ_INT(send(i == 0 ? a : b, out, sizeof(out), 0), sizeof(out));
		CHECK_EQ_INT(recv(i == 0 ? b : a, in, sizeof(in), MSG_WAITALL), sizeof(in));
		CHECK_MEM(in, out, sizeof(in));
	}
}

static void check_arrives(const char *from, const char *to, uint16_t port, const char *wanted)
{
	bool v6 = strchr(to, ':') != NULL;
	own_fd server = -1, client = dial_from(from, to, port, SOCK_STREAM);

	CHECK(client >= 0);
	server = accept_one(fds[v6 ? NET_FD_TCP6 : NET_FD_TCP4]);
	CHECK_STR(own_name(server), wanted);
	talk(client, server);
}

static void check_unreachable(const char *to)
{
	CHECK_EQ_INT(dial(to, 443, SOCK_STREAM), -ENETUNREACH);
	CHECK_EQ_INT(dial(to, 443, SOCK_DGRAM), -ENETUNREACH);
	CHECK_EQ_INT(dial(to, 53, SOCK_DGRAM), -ENETUNREACH);
}

/* --- (1) and (2): where a connection gets to --------------------------------------------------------------- */

TEST(netns_connections_arrive_with_where_they_wanted_to_go)
{
	enter_usual();
	check_arrives(NULL, "198.18.0.7", 443, "[198.18.0.7]:443");
	check_arrives(NULL, "198.19.255.254", 1, "[198.19.255.254]:1");
	check_arrives(NULL, "10.1.2.3", 8080, "[10.1.2.3]:8080");
	check_arrives(NULL, "10.1.2.3", 53, "[10.1.2.3]:53");
	check_arrives(NULL, "2001:db8::5", 443, "[2001:db8::5]:443");
	done();
}

/* A program may have another of its addresses as the source. */
TEST(netns_connections_arrive_whatever_their_source)
{
	enter_usual();
	check_arrives("127.0.0.1", "10.1.2.3", 443, "[10.1.2.3]:443");
	check_arrives("10.1.9.9", "10.1.2.3", 443, "[10.1.2.3]:443");
	check_arrives("::1", "2001:db8::5", 443, "[2001:db8::5]:443");
	done();
}

TEST(netns_elsewhere_is_unreachable_at_once)
{
	enter_usual();
	check_unreachable("192.0.2.1");
	check_unreachable("10.2.0.1");
	check_unreachable("198.17.255.255");
	check_unreachable("169.254.169.254");
	check_unreachable("2001:db9::1");
	check_unreachable("2001:db8:1::1"); /* the exception */
	check_unreachable("fe80::1");
	done();
}

/* A program that says by itself that it wants lo needs no route. It gets no further than to our listener, which must not believe in routes. */
TEST(netns_routes_are_no_fence)
{
	union address a;
	socklen_t len = address("192.0.2.1", 443, &a);
	own_fd client = -1, server = -1;

	enter_usual();
	client = make(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ_INT(setsockopt(client, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), 0);
	CHECK_EQ_INT(connect(client, &a.sa, len), 0);
	server = accept_one(fds[NET_FD_TCP4]);
	CHECK_STR(own_name(server), "[192.0.2.1]:443");
	done();
}

TEST(netns_a_connection_straight_to_the_listener_is_refused)
{
	enter_usual();
	CHECK_EQ_INT(dial("127.0.0.1", NET_PORT, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(dial("127.9.9.9", NET_PORT, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(dial("::1", NET_PORT, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(dial_from(NET_V4_OWN, "127.0.0.1", NET_PORT, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(accept(fds[NET_FD_TCP4], NULL, NULL), -1);
	CHECK_EQ_INT(errno, EAGAIN);
	CHECK_EQ_INT(tracked(), 0);
	done();
}

TEST(netns_the_proxy_and_the_resolver_are_on_loopback)
{
	static const struct {
		enum net_fd fd;
		uint16_t port;
		const char *to;
	} rows[] = {
		{ NET_FD_PROXY, NET_PROXY_PORT, "127.0.0.1" },
		{ NET_FD_DNS_TCP, NET_DNS_PORT, "127.0.0.1" },
		{ NET_FD_DNS_TCP, NET_DNS_PORT, "::1" },
		{ NET_FD_DNS_TCP, NET_DNS_PORT, NET_V4_OWN },
	};

	enter_usual();
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		own_fd client = dial(rows[i].to, rows[i].port, SOCK_STREAM), server = -1;

		CHECK(client >= 0);
		server = accept_one(fds[rows[i].fd]);
		talk(client, server);
	}
	CHECK_EQ_INT(tracked(), 0);
	done();
}

/* --- (2): what is not TCP ---------------------------------------------------------------------------------- */

static int send_to(const char *to, uint16_t port, int type, int protocol)
{
	union address a;
	socklen_t len = address(to, port, &a);
	own_fd fd = make(a.sa.sa_family, type, protocol);
	char packet[64] = { 8 }; /* as ICMP, an echo request */

	return sendto(fd, packet, sizeof(packet), 0, &a.sa, len) < 0 ? -errno : 0;
}

TEST(netns_datagrams_fail_at_send)
{
	enter_usual();
	CHECK_EQ_INT(send_to("10.1.2.3", 443, SOCK_DGRAM, 0), -EPERM);
	CHECK_EQ_INT(send_to("198.18.0.7", 123, SOCK_DGRAM, 0), -EPERM);
	CHECK_EQ_INT(send_to("2001:db8::5", 443, SOCK_DGRAM, 0), -EPERM);
	CHECK_EQ_INT(send_to("192.0.2.1", 443, SOCK_DGRAM, 0), -ENETUNREACH);
	CHECK_EQ_INT(send_to("2001:db9::5", 443, SOCK_DGRAM, 0), -ENETUNREACH);
	CHECK_EQ_INT(tracked(), 0);
	done();
}

TEST(netns_raw_packets_fail_at_send)
{
	static const int protocols[] = { IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_UDP, IPPROTO_SCTP,
					 IPPROTO_GRE,  IPPROTO_ESP,    253 };

	enter_usual();
	for (unsigned int i = 0; i < ARRAY_LEN(protocols); i++) {
		CHECK_EQ_INT(send_to("10.1.2.3", 0, SOCK_RAW, protocols[i]), -EPERM);
		CHECK_EQ_INT(send_to("2001:db8::5", 0, SOCK_RAW, protocols[i]), -EPERM);
	}
	CHECK_EQ_INT(send_to("192.0.2.1", 0, SOCK_RAW, IPPROTO_ICMP), -ENETUNREACH);
	CHECK_EQ_INT(send_to("127.0.0.1", 0, SOCK_RAW, IPPROTO_ICMP), 0);
	CHECK_EQ_INT(tracked(), 0);
	done();
}

/* As the resolver does: an answer goes back with what came with the question. */
static void answer_one(void)
{
	union address a;
	_Alignas(struct cmsghdr) char control[NET_DNS_CONTROL];
	char question[16];
	struct iovec v = { question, sizeof(question) };
	struct msghdr m = { .msg_name = &a,
			    .msg_namelen = sizeof(a),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	CHECK(is_ready(fds[NET_FD_DNS]));
	CHECK_EQ_INT(recvmsg(fds[NET_FD_DNS], &m, 0), 1);
	CHECK_EQ_INT(m.msg_flags & MSG_CTRUNC, 0);
	CHECK(m.msg_controllen > 0);
	v.iov_len = 1;
	CHECK_EQ_INT(sendmsg(fds[NET_FD_DNS], &m, 0), 1);
}

static void check_answered(const char *from, const char *who, bool connected)
{
	union address a, by = { 0 };
	socklen_t len = address(who, 53, &a), by_len = sizeof(by);
	own_fd fd = make(a.sa.sa_family, SOCK_DGRAM, 0);
	char answer[16], wanted[80];

	if (from != NULL) {
		len = address(from, 0, &a);
		CHECK_EQ_INT(bind(fd, &a.sa, len), 0);
		len = address(who, 53, &a);
	}
	if (connected)
		CHECK_EQ_INT(connect(fd, &a.sa, len), 0);
	CHECK_EQ_INT(sendto(fd, "?", 1, 0, connected ? NULL : &a.sa, connected ? 0 : len), 1);
	answer_one();
	CHECK_EQ_INT(recvfrom(fd, answer, sizeof(answer), 0, &by.sa, &by_len), 1);
	(void)snprintf(wanted, sizeof(wanted), "[%s]:53", who);
	CHECK_STR(shown(&by), wanted);
}

TEST(netns_questions_are_answered_by_whom_was_asked)
{
	static const char *const whom[] = {
		"127.0.0.1", "::1",         NET_V4_OWN,    NET_V6_OWN,
		"10.1.2.3",  "198.18.0.99", "2001:db8::5", "127.0.0.53"
	};

	enter_usual();
	for (unsigned int i = 0; i < ARRAY_LEN(whom); i++) {
		check_answered(NULL, whom[i], false);
		check_answered(NULL, whom[i], true);
	}
	/* Whatever address the one who asks has. */
	check_answered("127.0.0.1", "10.1.2.3", false);
	check_answered("10.1.9.9", "10.1.2.3", false);
	check_answered("10.1.9.9", NET_V4_OWN, true);
	CHECK_EQ_INT(tracked(), 0);
	done();
}

/* Somebody who shares its port would get the questions. */
TEST(netns_nobody_else_gets_the_questions)
{
	static const char *const where[] = { "127.0.0.1", "0.0.0.0", "::1", "::", NET_V4_OWN };

	enter_usual();
	for (unsigned int i = 0; i < ARRAY_LEN(where); i++) {
		union address a;
		socklen_t len = address(where[i], 53, &a);
		own_fd fd = make(a.sa.sa_family, SOCK_DGRAM, 0);
		int on = 1;

		CHECK_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
		CHECK_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
		CHECK_EQ_INT(bind(fd, &a.sa, len), -1);
		CHECK_EQ_INT(errno, EADDRINUSE);
	}
	done();
}

/* A program that listens everywhere does not get what goes elsewhere, nor one that listens just there. */
TEST(netns_nobody_else_gets_the_connections)
{
	static const char *const where[] = { "0.0.0.0", "10.1.2.3" };

	enter_usual();
	for (unsigned int i = 0; i < ARRAY_LEN(where); i++) {
		union address a;
		socklen_t len = address(where[i], 8080, &a);
		own_fd fd = make(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		int on = 1;

		CHECK_EQ_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
		CHECK_EQ_INT(bind(fd, &a.sa, len), 0);
		CHECK_EQ_INT(listen(fd, 1), 0);
		check_arrives(NULL, "10.1.2.3", 8080, "[10.1.2.3]:8080");
		CHECK_EQ_INT(accept(fd, NULL, NULL), -1);
	}
	done();
}

/* --- (3): loopback ----------------------------------------------------------------------------------------- */

static void check_between_programs(const char *at, const char *from)
{
	union address a;
	socklen_t len = address(at, 0, &a);
	own_fd listener = make(a.sa.sa_family, SOCK_STREAM, 0), client = -1, server = -1;
	own_fd udp = make(a.sa.sa_family, SOCK_DGRAM, 0), asker = -1;
	char byte;

	CHECK_EQ_INT(bind(listener, &a.sa, len), 0);
	CHECK_EQ_INT(listen(listener, 1), 0);
	CHECK_EQ_INT(getsockname(listener, &a.sa, &len), 0);
	client = dial_from(from, at, ntohs(a.v4.sin_port), SOCK_STREAM);
	CHECK(client >= 0);
	server = accept_one(listener);
	talk(client, server);

	CHECK_EQ_INT(bind(udp, &a.sa, len), 0);
	asker = dial_from(from, at, ntohs(a.v4.sin_port), SOCK_DGRAM);
	CHECK(asker >= 0);
	CHECK_EQ_INT(send(asker, "?", 1, 0), 1);
	len = sizeof(a);
	CHECK_EQ_INT(recvfrom(udp, &byte, 1, 0, &a.sa, &len), 1);
	CHECK_EQ_INT(sendto(udp, "!", 1, 0, &a.sa, len), 1);
	CHECK_EQ_INT(recv(asker, &byte, 1, 0), 1);

	/* Nobody there: known at once, as ever. */
	fd_close(&udp);
	CHECK_EQ_INT(send(asker, "?", 1, 0), 1);
	CHECK_EQ_INT(recv(asker, &byte, 1, 0), -1);
	CHECK_EQ_INT(errno, ECONNREFUSED);
}

TEST(netns_programs_talk_over_loopback_and_are_not_tracked)
{
	enter_usual();
	check_between_programs("127.0.0.1", NULL);
	check_between_programs("127.0.0.1", "127.0.0.2");
	check_between_programs("127.3.4.5", NULL);
	check_between_programs("::1", NULL);
	CHECK_EQ_INT(dial("127.0.0.1", 9, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(dial("::1", 9, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(tracked(), 0);
	done();
}

/* Libraries ask which source a route has, and tell others to connect there. */
TEST(netns_programs_talk_over_the_address_that_they_see)
{
	enter_usual();
	check_between_programs(NET_V4_OWN, NULL);
	check_between_programs(NET_V6_OWN, NULL);
	check_between_programs(NET_V4_OWN, "127.0.0.1");
	check_between_programs("127.0.0.1", NET_V4_OWN);
	check_between_programs("::1", NET_V6_OWN);
	CHECK_EQ_INT(dial(NET_V4_OWN, 9, SOCK_STREAM), -ECONNREFUSED);
	CHECK_EQ_INT(tracked(), 0);
	done();
}

/* --- (4): many --------------------------------------------------------------------------------------------- */

/* Their far ends are closed first and linger, and new ones are not taken for them. */
TEST(netns_many_connections_and_none_is_tracked)
{
	enter_usual();
	for (unsigned int i = 0; i < 10 * NET_BACKLOG; i++) {
		char to[32], wanted[48];

		(void)snprintf(to, sizeof(to), i % 2 == 0 ? "10.1.2.%u" : "2001:db8::%u",
			       1 + i % 200);
		(void)snprintf(wanted, sizeof(wanted), "[%s]:443", to);
		check_arrives(NULL, to, 443, wanted);
	}
	CHECK_EQ_INT(tracked(), 0);
	done();
}

/* One port of the program's may have connections to several addresses. */
TEST(netns_connections_from_one_port_are_told_apart)
{
	static const char *const to[] = { "10.1.2.3", "10.1.2.4", "198.18.0.7" };
	int clients[ARRAY_LEN(to)], servers[ARRAY_LEN(to)];
	union address a;
	socklen_t len;

	enter_usual();
	for (unsigned int i = 0; i < ARRAY_LEN(to); i++) {
		int on = 1;

		clients[i] = make(AF_INET, SOCK_STREAM, 0);
		len = address("0.0.0.0", 5000, &a);
		CHECK_EQ_INT(setsockopt(clients[i], SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
		CHECK_EQ_INT(bind(clients[i], &a.sa, len), 0);
		len = address(to[i], 443, &a);
		CHECK_EQ_INT(connect(clients[i], &a.sa, len), 0);
		servers[i] = accept_one(fds[NET_FD_TCP4]);
	}
	for (unsigned int i = 0; i < ARRAY_LEN(to); i++) {
		char wanted[48];

		(void)snprintf(wanted, sizeof(wanted), "[%s]:443", to[i]);
		CHECK_STR(own_name(servers[i]), wanted);
		talk(clients[i], servers[i]);
		fd_close(&clients[i]);
		fd_close(&servers[i]);
	}
	done();
}

/* --- routes ------------------------------------------------------------------------------------------------ */

TEST(netns_routes_change_and_end)
{
	struct net_route a[4], b[3];
	unsigned int n = usual(a);

	enter_usual();
	b[0] = a[0];
	b[1] = route("10.1.0.0", 16, true); /* was a route */
	b[2] = route("192.0.2.0", 24, false);
	CHECK_EQ_INT(net_routes(a, n, b, 3), 0);
	check_arrives(NULL, "198.18.0.7", 443, "[198.18.0.7]:443");
	check_arrives(NULL, "192.0.2.1", 443, "[192.0.2.1]:443");
	check_unreachable("10.1.2.3");
	check_unreachable("2001:db8::5");

	CHECK_EQ_INT(net_routes(a, n, b, 3), 0); /* again: there is nothing left to do */
	CHECK_EQ_INT(net_routes(b, 3, a, n), 0);
	check_arrives(NULL, "10.1.2.3", 443, "[10.1.2.3]:443");
	check_arrives(NULL, "2001:db8::5", 443, "[2001:db8::5]:443");
	check_unreachable("192.0.2.1");

	CHECK_EQ_INT(net_routes(a, n, NULL, 0), 0);
	check_unreachable("198.18.0.7");
	check_unreachable("10.1.2.3");
	check_unreachable("2001:db8::5");
	check_between_programs("127.0.0.1", NULL);
	check_between_programs(NET_V4_OWN, NULL);
	check_between_programs(NET_V6_OWN, NULL);
	done();
}

TEST(netns_a_connection_stays_when_its_route_does)
{
	struct net_route a[4];
	unsigned int n = usual(a);
	own_fd client = -1, server = -1;

	enter_usual();
	client = dial("10.1.2.3", 443, SOCK_STREAM);
	CHECK(client >= 0);
	server = accept_one(fds[NET_FD_TCP4]);
	CHECK_EQ_INT(net_routes(a, n, &a[1], 1), 0);
	talk(client, server);
	/* And one whose route goes hears that the other side closed it. */
	CHECK_EQ_INT(net_routes(&a[1], 1, NULL, 0), 0);
	fd_close(&server);
	CHECK_EQ_INT(recv(client, &n, 1, 0), 0);
	done();
}

TEST(netns_all_routes_at_once)
{
	static struct net_route a[NET_ROUTES_MAX + 1];

	enter();
	prepare();
	for (unsigned int i = 0; i < ARRAY_LEN(a); i++) {
		a[i] = i % 2 == 0 ? route("10.0.0.0", 24, false) : route("2001:db8::", 48, false);
		a[i].address.a[i % 2 == 0 ? 2 : 5] = (uint8_t)(i / 2);
	}
	CHECK_EQ_INT(net_routes(NULL, 0, a, NET_ROUTES_MAX + 1), -EINVAL);
	check_unreachable("10.0.0.1");
	CHECK_EQ_INT(net_routes(NULL, 0, a, NET_ROUTES_MAX), 0);
	CHECK_EQ_INT(net_routes(NULL, 0, a, NET_ROUTES_MAX), 0);
	check_arrives(NULL, "10.0.0.1", 443, "[10.0.0.1]:443");
	check_arrives(NULL, "10.0.159.1", 443, "[10.0.159.1]:443");
	check_arrives(NULL, "2001:db8:9f::1", 443, "[2001:db8:9f::1]:443");
	check_unreachable("10.0.160.1");
	CHECK_EQ_INT(net_routes(a, NET_ROUTES_MAX, NULL, 0), 0);
	CHECK_EQ_INT(net_routes(a, NET_ROUTES_MAX, NULL, 0), 0);
	check_unreachable("10.0.159.1");
	check_unreachable("2001:db8:9f::1");
	done();
}

/* "open": everything, but for what is not public. Loopback is not among what can be refused. */
TEST(netns_everything_with_exceptions)
{
	static const char *const refused[] = { "10.0.0.1",        "172.31.0.1", "192.168.1.1",
					       "169.254.169.254", "fc00::1",    "fe80::1" };
	struct net_route a[] = {
		route("0.0.0.0", 0, false),     route("::", 0, false),
		route("10.0.0.0", 8, true),     route("172.16.0.0", 12, true),
		route("192.168.0.0", 16, true), route("169.254.0.0", 16, true),
		route("fc00::", 7, true),       route("fe80::", 10, true),
		route("127.0.0.0", 8, true),    route("127.0.0.1", 32, true),
		route("::1", 128, true),        route(NET_V4_OWN, 32, true),
		route(NET_V6_OWN, 128, true),
	};

	enter();
	prepare();
	CHECK_EQ_INT(net_routes(NULL, 0, a, ARRAY_LEN(a)), 0);
	for (unsigned int i = 0; i < ARRAY_LEN(refused); i++)
		check_unreachable(refused[i]);
	check_arrives(NULL, "192.0.2.1", 443, "[192.0.2.1]:443");
	check_arrives(NULL, "198.18.0.7", 443, "[198.18.0.7]:443");
	check_arrives(NULL, "2001:db8::5", 443, "[2001:db8::5]:443");
	check_answered(NULL, "192.0.2.53", true);
	check_answered(NULL, "2001:db8::53", true);
	CHECK_EQ_INT(send_to("192.0.2.1", 443, SOCK_DGRAM, 0), -EPERM);
	check_between_programs("127.0.0.1", NULL);
	check_between_programs("::1", NULL);
	check_between_programs(NET_V4_OWN, NULL);
	check_between_programs(NET_V6_OWN, NULL);

	CHECK_EQ_INT(net_routes(a, ARRAY_LEN(a), NULL, 0), 0);
	check_unreachable("192.0.2.1");
	check_unreachable("2001:db8::5");
	check_between_programs("127.0.0.1", NULL);
	check_between_programs("::1", NULL);
	check_between_programs(NET_V4_OWN, NULL);
	check_between_programs(NET_V6_OWN, NULL);
	done();
}

TEST(netns_what_is_no_prefix_changes_nothing)
{
	struct net_route good = route("10.1.0.0", 16, false);
	struct net_route bad[] = { route("10.1.0.1", 16, false), route("10.1.0.0", 33, false),
				   route("2001:db8::1", 127, false), route("::", 129, false) };

	enter();
	prepare();
	for (unsigned int i = 0; i < ARRAY_LEN(bad); i++) {
		struct net_route list[] = { good, bad[i] };

		CHECK_EQ_INT(net_routes(NULL, 0, list, 2), -EINVAL);
		CHECK_EQ_INT(net_routes(list, 2, NULL, 0), -EINVAL);
		check_unreachable("10.1.2.3");
	}
	done();
}

/* --- how it is made ---------------------------------------------------------------------------------------- */

TEST(netns_sockets_are_as_promised)
{
	const char *what;
	int again[NET_FD_MAX], one;
	socklen_t len = sizeof(one);

	enter_usual();
	for (unsigned int i = 0; i < NET_FD_MAX; i++) {
		CHECK_EQ_INT(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		CHECK_EQ_INT(fcntl(fds[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
		CHECK_EQ_INT(getsockopt(fds[i], SOL_SOCKET, SO_ACCEPTCONN, &one, &len), 0);
		CHECK_EQ_INT(one, i != NET_FD_DNS);
	}

	/* A second time is refused, and the first one stays as it is. */
	CHECK_EQ_INT(net_prepare(again, &what), -EEXIST);
	CHECK_STR(what, "packet filter");
	for (unsigned int i = 0; i < NET_FD_MAX; i++)
		CHECK_EQ_INT(again[i], -1);
	check_arrives(NULL, "10.1.2.3", 443, "[10.1.2.3]:443");
	check_answered(NULL, "127.0.0.1", true);
	done();
}

TEST(netns_a_port_that_is_taken_is_told)
{
	const char *what = NULL;
	union address a;
	socklen_t len = address("127.0.0.1", NET_PROXY_PORT, &a);
	own_fd taken = -1;
	int r;

	enter();
	taken = make(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ_INT(bind(taken, &a.sa, len), 0);
	CHECK_EQ_INT(listen(taken, 1), 0);
	r = net_prepare(fds, &what);
	if (r == -EPROTONOSUPPORT || r == -EOPNOTSUPP)
		skip_for("no nf_tables here", -r);
	CHECK_EQ_INT(r, -EADDRINUSE);
	CHECK_STR(what, "listeners");
	for (unsigned int i = 0; i < NET_FD_MAX; i++)
		CHECK_EQ_INT(fds[i], -1);
}

TEST(netns_without_power_nothing_is_made)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };
	struct net_route routes[4];
	unsigned int n = usual(routes);
	const char *what = NULL;
	int r;

	enter();
	CHECK_EQ_INT(syscall(SYS_capset, &header, none), 0);
	r = net_prepare(fds, &what);
	if (r == -EPROTONOSUPPORT)
		skip_for("no nf_tables here", -r);
	CHECK_EQ_INT(r, -EPERM);
	CHECK_STR(what, "packet filter");
	CHECK_EQ_INT(net_routes(NULL, 0, routes, n), -EPERM);
}

/* A machine can have it turned off; then a box has none, and everything else. */
TEST(netns_without_ipv6)
{
	struct net_route a[] = { route("10.1.0.0", 16, false), route("::", 0, false),
				 route("fc00::", 7, true) };
	own_fd off = -1;

	enter();
	off = open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", O_WRONLY | O_CLOEXEC);
	if (off < 0 || write(off, "1", 1) != 1)
		skip_for("cannot turn off IPv6", errno);
	prepare();
	CHECK_EQ_INT(fds[NET_FD_TCP6], -1);
	CHECK_EQ_INT(net_routes(NULL, 0, a, ARRAY_LEN(a)), 0);
	check_arrives(NULL, "10.1.2.3", 443, "[10.1.2.3]:443");
	check_answered(NULL, "10.1.2.3", true);
	check_answered(NULL, "127.0.0.1", false);
	CHECK(dial("2001:db8::5", 443, SOCK_STREAM) < 0);
	CHECK_EQ_INT(net_routes(a, ARRAY_LEN(a), NULL, 0), 0);
	check_unreachable("10.1.2.3");
	done();
}
