// One translation unit, so that the emulator is one object to link with every kernel.

#include "runtime.cpp"
#include "messages.cpp"
#include "shared_memory.cpp"
#include "faults.cpp"
#include "checker.cpp"
