/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/dnsname.h"

#include "base/own.h"

#include <errno.h>

#include "test_help.h"

static struct fence fence;

/* From memory that ends where it does. */
static int take(const char *p, size_t n, char *name)
{
	if (fence.map == NULL)
		fence = fence_open(1024);
	memset(name, '#', DNSNAME_SIZE);
	return dnsname_read((const char *)fence_copy(&fence, p, n), n, name);
}

TEST(dnsname_read_takes_names_and_makes_them_one_form)
{
	static const char *const rows[][2] = {
		{ "pypi.org", "pypi.org" },
		{ "PyPI.Org", "pypi.org" },
		{ "pypi.org.", "pypi.org" },
		{ "localhost", "localhost" },
		{ "a", "a" },
		{ "_dmarc.x-1.example", "_dmarc.x-1.example" },
		{ "AZ.az.09.x", "az.az.09.x" },
		{ "xn--mnchen-3ya.de", "xn--mnchen-3ya.de" },
		{ "1.2.3.4.in-addr.arpa", "1.2.3.4.in-addr.arpa" },
		{ "1.2.3.4a", "1.2.3.4a" },
		{ "127.0.0.1-", "127.0.0.1-" },
		{ "x.0y1", "x.0y1" },
		{ "x.0xfg", "x.0xfg" },
		{ "x.0xg", "x.0xg" },
		{ "x.1x0", "x.1x0" },
		{ "0x7f.example", "0x7f.example" },
	};
	char name[DNSNAME_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK_EQ_INT(take(rows[i][0], strlen(rows[i][0]), name), 0);
		CHECK_STR(name, rows[i][1]);
	}
}

TEST(dnsname_read_refuses_what_is_no_name)
{
	static const char *const rows[] = {
		"",      "..",   ".a",          "a..b",  "a..",
		"a b",   "a/b",  "a:b",         "[::1]", "::1",
		"a%b",   "a@b",  "a*",          "*.a",   "a\n",
		"a\x7f", "a,b",  "\xc3\xa4.de", "a\x80", "a\xe3\x80\x82.de",
		"a\t",   "a\\b", "a'b",         "a\x01",
	};
	char name[DNSNAME_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK_EQ_INT(take(rows[i], strlen(rows[i]), name), -EINVAL);
		CHECK_STR(name, "");
	}
	CHECK_EQ_INT(take(".", 1, name), -EINVAL);
	CHECK_EQ_INT(take("a\0b", 3, name), -EINVAL);
	CHECK_EQ_INT(take("ab\0", 3, name), -EINVAL);
}

TEST(dnsname_read_takes_exactly_its_bytes)
{
	char name[DNSNAME_SIZE];

	for (unsigned int c = 0; c < 256; c++) {
		char text[3] = { 'a', (char)c, 'b' };
		bool good = c == '-' || c == '_' || c == '.' || (c >= '0' && c <= '9') ||
			    (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		CHECK_EQ_INT(take(text, 3, name), good ? 0 : -EINVAL);
		if (good)
			CHECK_EQ_INT(name[1], c >= 'A' && c <= 'Z' ? c + 32 : c);
	}
}

TEST(dnsname_read_takes_no_address_in_whatever_form)
{
	static const char *const rows[] = {
		"127.0.0.1",
		"127.0.0.1.",
		"1.2.3.4.",
		"127.1",
		"2130706433",
		"0x7f.1",
		"0x7f.0x1",
		"0x7f000001",
		"0X7F000001",
		"017700000001",
		"0177.0.0.01",
		"1.2.3.4.5",
		"example.1",
		"1",
		"0",
		"example.0x",
		"example.0xA",
		"256.256.256.256",
		"99999999999999999999",
	};
	char name[DNSNAME_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_EQ_INT(take(rows[i], strlen(rows[i]), name), -EINVAL);
}

TEST(dnsname_read_keeps_its_bounds)
{
	char text[300], name[DNSNAME_SIZE];

	memset(text, 'a', sizeof(text));
	for (size_t n = 1; n <= 70; n++) {
		CHECK_EQ_INT(take(text, n, name), n <= 63 ? 0 : -EINVAL);
		text[n] = '.'; /* the same label, and another behind it */
		CHECK_EQ_INT(take(text, n + 2, name), n <= 63 ? 0 : -EINVAL);
		text[n] = 'a';
	}
	for (size_t i = 50; i < sizeof(text); i += 51)
		text[i] = '.';
	for (size_t n = 1; n < sizeof(text) - 1; n++) {
		bool dot = text[n - 1] == '.';
		char next = text[n];

		CHECK_EQ_INT(take(text, n, name), n - dot <= 253 ? 0 : -EINVAL);
		if (n - dot <= 253)
			CHECK_EQ_INT(strlen(name), n - dot);
		if (dot)
			continue;
		text[n] = '.';
		CHECK_EQ_INT(take(text, n + 1, name), n <= 253 ? 0 : -EINVAL);
		text[n] = next;
	}
}

TEST(dnsname_read_of_its_own_result_is_the_same)
{
	static const char bytes[] = "aZ09-_.x";
	char text[40], name[DNSNAME_SIZE], again[DNSNAME_SIZE];
	uint64_t state = 7;
	unsigned int taken = 0;

	for (unsigned int i = 0; i < 20000; i++) {
		size_t n = rnd_below(&state, sizeof(text));

		for (size_t k = 0; k < n; k++)
			text[k] = bytes[rnd_below(&state, sizeof(bytes) - 1)];
		if (take(text, n, name) < 0)
			continue;
		taken++;
		CHECK_EQ_INT(take(name, strlen(name), again), 0);
		CHECK_STR(again, name);
	}
	CHECK(taken > 1000);
}

TEST(dnsname_v4_takes_the_usual_form_only)
{
	static const struct {
		const char *text;
		uint8_t address[4];
	} good[] = {
		{ "0.0.0.0", { 0, 0, 0, 0 } },
		{ "127.0.0.1", { 127, 0, 0, 1 } },
		{ "255.255.255.255", { 255, 255, 255, 255 } },
		{ "198.18.0.7", { 198, 18, 0, 7 } },
	};
	static const char *const bad[] = {
		"",          "1",         "1.2.3",      "1.2.3.",    "1.2.3.4.",
		".1.2.3.4",  "1..2.3",    "1.2.3.4.5",  "01.2.3.4",  "1.2.3.00",
		"256.1.1.1", "1.2.3.999", "1.2.3.1000", "0x1.2.3.4", "1.2.3.a",
		"1.2.3.4 ",  " 1.2.3.4",  "+1.2.3.4",   "1,2.3.4",   "-1.2.3.4",
	};
	uint8_t address[4];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		CHECK_EQ_INT(dnsname_v4(good[i].text, strlen(good[i].text), address), 0);
		CHECK_MEM(address, good[i].address, 4);
	}
	memset(address, 9, sizeof(address));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fence f = fence_open(64);
		const uint8_t *p = fence_copy(&f, bad[i], strlen(bad[i]));

		CHECK_EQ_INT(dnsname_v4((const char *)p, strlen(bad[i]), address), -EINVAL);
		CHECK_MEM(address, "\x09\x09\x09\x09", 4);
		fence_close(&f);
	}
	CHECK_EQ_INT(dnsname_v4("1.2.3.4\0", 8, address), -EINVAL);
	CHECK_EQ_INT(dnsname_v4("1.2.3.45", 7, address), 0);
	CHECK_EQ_INT(address[3], 4);
}
