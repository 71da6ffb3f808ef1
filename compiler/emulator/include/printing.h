// printf of kernels: places in watched memory are printed as what they hold.
#pragma once
#include "memory.h"

extern "C" int dprintf(int file, const char *format, ...);

namespace whet_emulator {

template <class T>
inline const T &printed(const T &value) { return value; }
template <class T>
inline auto printed(const Ref<T> &place) { return place.get(); }
template <class T>
inline T printed(const OwnedRef<T> &place) { return place.get(); }

}  // namespace whet_emulator

// Not all of stdio.h, whose other names are a kernel's to use; nothing stays in a buffer.
template <class... Values>
inline int printf(const char *format, const Values &...values) {
    return dprintf(1, format, whet_emulator::printed(values)...);
}
