/* A wall clock that jumps: five hours ahead, five hours back, from one half of a second to the next.
 * Loaded before the C library; the monotonic clock is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static int (*real)(clockid_t, struct timespec *);

static long jump(void) {
  struct timespec now;
  real(CLOCK_MONOTONIC, &now);
  return (now.tv_nsec < 500000000L ? 5 : -5) * 3600L;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  if (!real)
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(clock, at);
  if (!answer && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    at->tv_sec += jump();
  return answer;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  int answer = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return answer;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at)
    *at = now.tv_sec;
  return now.tv_sec;
}
