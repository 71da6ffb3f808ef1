// What the headers declare and a GPU has not: nvcc refuses calls of the host's functions.
#pragma once
#include <stdlib.h>
#include <string.h>

#define WHET_EMULATOR_HOST(name)                                                                   \
    extern "C" decltype(name) name __attribute__((error(#name " is a function of the host")))
WHET_EMULATOR_HOST(rand);
WHET_EMULATOR_HOST(srand);
WHET_EMULATOR_HOST(exit);
WHET_EMULATOR_HOST(abort);
WHET_EMULATOR_HOST(getenv);
WHET_EMULATOR_HOST(system);
WHET_EMULATOR_HOST(qsort);
WHET_EMULATOR_HOST(atoi);
WHET_EMULATOR_HOST(atof);
WHET_EMULATOR_HOST(strlen);
#undef WHET_EMULATOR_HOST
