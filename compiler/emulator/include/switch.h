// From one stack to another, by hand: what a fiber does where its thread has to wait.
#pragma once
#include <stddef.h>
#include <string.h>

namespace whet_emulator {

// One switch: what the calling convention keeps is pushed, the stack exchanged, and popped again.
#if defined(__x86_64__) && defined(__ELF__)
extern "C" void whet_emulator_switch(void **save, void *load);
__asm__(R"(
    .text
    .p2align 4
    .hidden whet_emulator_switch
    .type whet_emulator_switch, @function
whet_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size whet_emulator_switch, .-whet_emulator_switch
)");
inline void *fresh_stack(unsigned char *top, void (*body)()) {
    void **at = reinterpret_cast<void **>(top) - 8;
    *--at = nullptr;  // where body would return to
    *--at = reinterpret_cast<void *>(body);
    for (int k = 0; k < 6; ++k) *--at = nullptr;
    return at;
}
#elif defined(__aarch64__) && defined(__ELF__)
extern "C" void whet_emulator_switch(void **save, void *load);
__asm__(R"(
    .text
    .p2align 4
    .hidden whet_emulator_switch
    .type whet_emulator_switch, %function
whet_emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size whet_emulator_switch, .-whet_emulator_switch
)");
inline void *fresh_stack(unsigned char *top, void (*body)()) {
    void **at = reinterpret_cast<void **>(top) - 20;
    memset(at, 0, 160);
    at[11] = reinterpret_cast<void *>(body);  // x30, where the switch returns to
    return at;
}
#else
}  // namespace whet_emulator
#include <ucontext.h>
namespace whet_emulator {
inline void whet_emulator_switch(void **save, void *load) {
    ucontext_t own;
    *save = &own;
    swapcontext(&own, static_cast<ucontext_t *>(load));
}
inline void *fresh_stack(unsigned char *top, void (*body)()) {
    // The first context of a fiber lies at the top of its own stack.
    ucontext_t *first = reinterpret_cast<ucontext_t *>(top - 16 - sizeof(ucontext_t));
    getcontext(first);
    first->uc_stack.ss_sp = top - 131072;
    first->uc_stack.ss_size = 131072 - 16 - sizeof(ucontext_t);
    first->uc_link = nullptr;
    makecontext(first, body, 0);
    return first;
}
#endif

}  // namespace whet_emulator
