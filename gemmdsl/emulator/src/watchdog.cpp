#include "watchdog.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "checker.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace gemm_emu {

namespace {

constexpr long MILLION = 1000000;
// A block is ended between TICKS and TICKS + 1 intervals after its start.
constexpr int TICKS = 8;

itimerspec every(int64_t nanoseconds) {
    const timespec interval{static_cast<time_t>(nanoseconds / (1000 * MILLION)),
                            static_cast<long>(nanoseconds % (1000 * MILLION))};
    return {interval, interval};
}

}  // namespace

Watchdog::Watchdog(Worker& worker) : timer_{}, is_set_(false), previous_mask_{} {
    if (worker.job->options.limit_ms <= 0) return;
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = watchdog_signal();
    event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
    // Without a timer, an endless loop is not found.
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) return;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, watchdog_signal());
    pthread_sigmask(SIG_UNBLOCK, &mask, &previous_mask_);
    const itimerspec interval = every(worker.job->options.limit_ms * MILLION / TICKS);
    worker.timer = timer_;
    is_set_ = timer_settime(timer_, 0, &interval, nullptr) == 0;
}

Watchdog::~Watchdog() {
    if (!is_set_) return;
    // The signal goes to this thread, so one that is under way arrives before this call is over.
    timer_delete(timer_);
    pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void watch(Worker& worker) {
    if (!worker.interruptible || ++worker.ticks <= TICKS) return;
    if (worker.busy || worker.failed) {
        // What the block holds now it could not give back: a moment later it does not.
        const itimerspec soon = every(MILLION);
        timer_settime(worker.timer, 0, &soon, nullptr);
        return;
    }
    set_message(worker,
                "thread %u of block (%u, %u, %u) was still running after %.3g seconds of processor time: is there a "
                "loop that does not end?%s",
                worker.order[worker.cursor], blockIdx.x, blockIdx.y, blockIdx.z,
                1e-3 * worker.job->options.limit_ms, check_last_access());
    siglongjmp(worker.fault, 1);
}

}  // namespace gemm_emu
