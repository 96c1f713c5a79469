// One translation unit, so that the emulator is one object to link with every kernel.

#include "fibers.cpp"
#include "warps.cpp"
#include "copies.cpp"
#include "device_memory.cpp"
#include "launch.cpp"
#include "messages.cpp"
#include "shared_memory.cpp"
#include "faults.cpp"
#include "watchdog.cpp"
#include "checker.cpp"
#include "hooks.cpp"
