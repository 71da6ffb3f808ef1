// What would end the process: arithmetic that the text leaves undefined, and the processor's signals.
#pragma once
#include <signal.h>
#include <ucontext.h>
#include "faults.h"

namespace whet_emulator {

// As the compiler describes to a sanitizer's library what it has found.
struct SourcePlace { const char *file; uint32_t line, column; };
struct TypeName { uint16_t kind, info; char name[1]; };
struct Arithmetic { SourcePlace place; const TypeName *left, *right; };

inline int64_t whole_number(const TypeName *type, uintptr_t value) {
    const int bits = 1 << (type->info >> 1);
    if (bits > 64) return 0;  // it is behind an address
    const int unused = 64 - bits;
    return type->info & 1 ? int64_t(uint64_t(value) << unused) >> unused
                          : int64_t(uint64_t(value) << unused >> unused);
}

enum Undefined : int { SHIFT, DIVISION, NO_QUOTIENT };

[[noreturn]] static void fail_arithmetic(
    Undefined what, const Arithmetic *found, uintptr_t left, uintptr_t right, const void *place) {
    begin_report(report, ARITHMETIC, strcmp(found->place.file, "kernel.cu") == 0 ? found->place.line : 0);
    const TypeName *of_right = what == SHIFT ? found->right : found->left;
    report->reason = what;
    report->place = static_cast<const char *>(place) - __ehdr_start;
    report->index = whole_number(of_right, right);
    report->count = whole_number(found->left, left);
    report->element = 1 << (found->left->info >> 1);
    copy_text(report->text, found->left->name, sizeof report->text);
    end_launch();
}

static __thread bool launches;  // whether this thread of the host runs a kernel
constexpr int SIGNALS[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL};
static struct sigaction former[4];

static void on_signal(int number, siginfo_t *info, void *context) {
    if (!launches) {  // another thread's: what was to be done before
        for (int k = 0; k < 4; ++k)
            if (SIGNALS[k] == number) sigaction(number, &former[k], nullptr);
        return;
    }
    uintptr_t at = 0;
#if defined(__x86_64__) && defined(REG_RIP)
    at = uintptr_t(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]) + 1;
#elif defined(__aarch64__)
    at = uintptr_t(static_cast<ucontext_t *>(context)->uc_mcontext.pc) + 1;
#endif
    begin_report(report, number == SIGFPE ? ARITHMETIC : CRASH, 0);
    report->reason = number == SIGFPE ? int(NO_QUOTIENT) : number == SIGILL;
    report->place = at - reinterpret_cast<uintptr_t>(__ehdr_start);
    report->index = int64_t(reinterpret_cast<uintptr_t>(info->si_addr));
    end_launch();
}

inline void take_signals() {
    struct sigaction own;
    memset(&own, 0, sizeof own);
    own.sa_sigaction = on_signal;
    own.sa_flags = SA_SIGINFO | SA_NODEFER;  // nobody returns from it
    launches = true;
    for (int k = 0; k < 4; ++k) sigaction(SIGNALS[k], &own, &former[k]);
}
inline void give_signals_back() {
    for (int k = 0; k < 4; ++k) sigaction(SIGNALS[k], &former[k], nullptr);
    launches = false;
}

}  // namespace whet_emulator

// By these names the compiler calls a sanitizer's library, which is not linked.
extern "C" __attribute__((used)) void __ubsan_handle_shift_out_of_bounds(
    whet_emulator::Arithmetic *found, uintptr_t left, uintptr_t right) {
    using namespace whet_emulator;
    fail_arithmetic(SHIFT, found, left, right, __builtin_return_address(0));
}
extern "C" __attribute__((used)) void __ubsan_handle_divrem_overflow(
    whet_emulator::Arithmetic *found, uintptr_t left, uintptr_t right) {
    using namespace whet_emulator;
    fail_arithmetic(DIVISION, found, left, right, __builtin_return_address(0));
}
