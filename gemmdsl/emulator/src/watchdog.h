// Ends a block that takes too long, whether or not its threads ever wait for anything.

#pragma once

#include <signal.h>
#include <time.h>

#include "worker.h"

namespace gemm_emu {

// The signal of the timers; none that a debugger, a profiler or Python is likely to use.
inline int watchdog_signal() { return SIGRTMAX - 3; }

// While one exists, the calling thread's worker is looked at now and then, as its processor time goes on: time
// during which the machine does something else does not count.
class Watchdog {
public:
    explicit Watchdog(Worker& worker);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

private:
    timer_t timer_;
    bool is_set_;
    sigset_t previous_mask_;
};

// What the signal's handler does on the thread of `worker`; comes back when it is too early to end the block.
void watch(Worker& worker);

}  // namespace gemm_emu
