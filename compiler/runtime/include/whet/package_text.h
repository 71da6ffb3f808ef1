/* whet/package_text.h: the checksum and the index of a package; a part of <whet/package.h>.
 *
 * License: Apache-2.0.
 */
#ifndef WHET_PACKAGE_TEXT_H_
#define WHET_PACKAGE_TEXT_H_

#include <stdint.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WHET_PKG_WORD_ = 65, WHET_PKG_DEPTH_ = 64, WHET_PKG_DIGEST_ = 32 };

/* SHA-256 of `size` bytes. */
static inline void whet_pkg_block_(uint32_t *h, const unsigned char *at) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
      0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
      0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
      0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
      0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
      0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
      0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
      0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
      0xc67178f2};
  uint32_t w[64], v[8];
  int i;
  for (i = 0; i < 16; i++)
    w[i] = (uint32_t)at[4 * i] << 24 | (uint32_t)at[4 * i + 1] << 16 |
           (uint32_t)at[4 * i + 2] << 8 | at[4 * i + 3];
#define WHET_PKG_TURN_(x, n) ((x) >> (n) | (x) << (32 - (n)))
  for (i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (WHET_PKG_TURN_(a, 7) ^ WHET_PKG_TURN_(a, 18) ^ a >> 3) +
           (WHET_PKG_TURN_(b, 17) ^ WHET_PKG_TURN_(b, 19) ^ b >> 10);
  }
  for (i = 0; i < 8; i++) v[i] = h[i];
  for (i = 0; i < 64; i++) {
    uint32_t a = v[0], e = v[4];
    uint32_t t = v[7] + k[i] + w[i] + ((e & v[5]) ^ (~e & v[6])) +
                 (WHET_PKG_TURN_(e, 6) ^ WHET_PKG_TURN_(e, 11) ^ WHET_PKG_TURN_(e, 25));
    uint32_t u = (WHET_PKG_TURN_(a, 2) ^ WHET_PKG_TURN_(a, 13) ^ WHET_PKG_TURN_(a, 22)) +
                 ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    v[7] = v[6], v[6] = v[5], v[5] = e, v[4] = v[3] + t;
    v[3] = v[2], v[2] = v[1], v[1] = a, v[0] = t + u;
  }
#undef WHET_PKG_TURN_
  for (i = 0; i < 8; i++) h[i] += v[i];
}

static inline void whet_pkg_sha256_(const unsigned char *data, size_t size, unsigned char *digest) {
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char last[128];
  size_t whole = size / 64 * 64, rest = size - whole, end = rest < 56 ? 64 : 128, i;
  for (i = 0; i < whole; i += 64) whet_pkg_block_(h, data + i);
  memset(last, 0, sizeof last);
  if (rest != 0) memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  for (i = 0; i < 8; i++) last[end - 1 - i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
  for (i = 0; i < end; i += 64) whet_pkg_block_(h, last + i);
  for (i = 0; i < 32; i++) digest[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* JSON: a value is its text, and nothing is copied. Before anything is looked up, the whole text is
 * passed over once, so that its brackets and quotes are known to close. */
typedef struct {
  const char *at, *end;
} WhetPkgJson_;

static inline const char *whet_pkg_space_(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

static inline const char *whet_pkg_string_(const char *at, const char *end) {
  if (at >= end || *at != '"') return NULL;
  for (at++; at < end; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\') at++;
  }
  return NULL;
}

/* The end of the value that begins at `at`; NULL where there is none, or it is too deep. */
static inline const char *whet_pkg_skip_(const char *at, const char *end, int depth) {
  const char *begin = at;
  if (at >= end || depth > WHET_PKG_DEPTH_) return NULL;
  if (*at == '"') return whet_pkg_string_(at, end);
  if (*at == '{' || *at == '[') {
    int object = *at == '{';
    char close = object ? '}' : ']';
    at = whet_pkg_space_(at + 1, end);
    if (at < end && *at == close) return at + 1;
    for (;;) {
      if (object) {
        if ((at = whet_pkg_string_(at, end)) == NULL) return NULL;
        at = whet_pkg_space_(at, end);
        if (at >= end || *at != ':') return NULL;
        at = whet_pkg_space_(at + 1, end);
      }
      if ((at = whet_pkg_skip_(at, end, depth + 1)) == NULL) return NULL;
      at = whet_pkg_space_(at, end);
      if (at >= end) return NULL;
      if (*at == close) return at + 1;
      if (*at != ',') return NULL;
      at = whet_pkg_space_(at + 1, end);
    }
  }
  while (at < end && ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || *at == '-' ||
                      *at == '+' || *at == '.' || *at == 'E'))
    at++;
  return at > begin ? at : NULL;
}

/* The value of a key that an object has once. */
static inline int whet_pkg_get_(WhetPkgJson_ object, const char *key, WhetPkgJson_ *value) {
  const char *at = object.at;
  size_t length = strlen(key);
  int found = 0;
  if (at >= object.end || *at != '{') return 0;
  at = whet_pkg_space_(at + 1, object.end);
  while (at < object.end && *at == '"') {
    const char *name = at + 1, *after = whet_pkg_string_(at, object.end), *begin;
    if (after == NULL) return 0;
    at = whet_pkg_space_(after, object.end);
    if (at >= object.end) return 0;
    begin = whet_pkg_space_(at + 1, object.end); /* behind the colon */
    if ((at = whet_pkg_skip_(begin, object.end, 0)) == NULL) return 0;
    if ((size_t)(after - 1 - name) == length && memcmp(name, key, length) == 0) {
      if (found++) return 0;
      value->at = begin, value->end = at;
    }
    at = whet_pkg_space_(at, object.end);
    if (at < object.end && *at == ',') at = whet_pkg_space_(at + 1, object.end);
  }
  return found;
}

/* The next entry of a list; `at` is NULL before the first. 1; 0 at its end, or where it is none. */
static inline int whet_pkg_next_(WhetPkgJson_ list, const char **at, WhetPkgJson_ *entry) {
  if (list.at >= list.end || *list.at != '[') return 0;
  if (*at == NULL) {
    *at = whet_pkg_space_(list.at + 1, list.end);
  } else {
    *at = whet_pkg_space_(*at, list.end);
    if (*at >= list.end || **at != ',') return 0;
    *at = whet_pkg_space_(*at + 1, list.end);
  }
  if (*at >= list.end || **at == ']') return 0;
  entry->at = *at;
  entry->end = whet_pkg_skip_(*at, list.end, 0);
  if (entry->end == NULL) return 0;
  *at = entry->end;
  return 1;
}

static inline int whet_pkg_is_list_(WhetPkgJson_ value) {
  return value.at < value.end && *value.at == '[';
}

/* A word without escapes, as a C string of at most `room` bytes. */
static inline int whet_pkg_word_(WhetPkgJson_ value, char *word, size_t room) {
  size_t length = (size_t)(value.end - value.at), i;
  if (length < 3 || *value.at != '"' || length - 2 >= room) return 0;
  for (i = 0; i < length - 2; i++) {
    char c = value.at[i + 1];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
          c == '_' || c == '.' || c == '+' || c == '-'))
      return 0;
    word[i] = c;
  }
  word[i] = 0;
  return 1;
}

static inline int whet_pkg_number_(WhetPkgJson_ value, uint64_t *number) {
  const char *at = value.at;
  *number = 0;
  if (value.end - at > 18 || (*at == '0' && value.end - at > 1)) return 0;
  for (; at < value.end; at++) {
    if (*at < '0' || *at > '9') return 0;
    *number = *number * 10 + (uint64_t)(*at - '0');
  }
  return value.end > value.at;
}

static inline int whet_pkg_field_(WhetPkgJson_ object, const char *key, char *word, size_t room) {
  WhetPkgJson_ value;
  return whet_pkg_get_(object, key, &value) && whet_pkg_word_(value, word, room);
}

static inline int whet_pkg_count_(WhetPkgJson_ object, const char *key, uint64_t *number) {
  WhetPkgJson_ value;
  return whet_pkg_get_(object, key, &value) && whet_pkg_number_(value, number);
}

#ifdef __cplusplus
}
#endif

#endif /* WHET_PACKAGE_TEXT_H_ */
