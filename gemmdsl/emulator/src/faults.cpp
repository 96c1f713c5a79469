#include "faults.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

#include "watchdog.h"
#include "worker.h"

namespace gemm_emu {

namespace {

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int SIGNAL_COUNT = 4;
constexpr size_t SIGNAL_STACK_BYTES = 64 * 1024;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int users = 0;
struct sigaction previous[SIGNAL_COUNT], previous_watchdog;

void describe(Worker& worker, int signal, const siginfo_t& info) {
    const char* address = static_cast<const char*>(info.si_addr);
    const unsigned thread = worker.order[worker.cursor];
    char cause[96];
    if (signal == SIGFPE) {
        snprintf(cause, sizeof cause, "division by zero");
    } else if (signal == SIGILL) {
        snprintf(cause, sizeof cause, "undefined operation, for which the compiler left no code,");
    } else if (worker.stacks->in_guard(address)) {
        snprintf(cause, sizeof cause, "stack overflow");
    } else if (address == nullptr) {
        // Also what the machine reports for addresses that it cannot even represent.
        snprintf(cause, sizeof cause, "access to a null or impossible address");
    } else {
        snprintf(cause, sizeof cause, "access to invalid address %p", static_cast<const void*>(address));
    }
    set_message(worker, "%s by thread %u of block (%u, %u, %u)", cause, thread, blockIdx.x,
                blockIdx.y, blockIdx.z);
}

void on_fault(int signal, siginfo_t* info, void* context) {
    Worker* worker = local.worker;
    if (worker != nullptr) {
        describe(*worker, signal, *info);
        siglongjmp(worker->fault, 1);
    }
    for (int i = 0; i < SIGNAL_COUNT; ++i) {
        if (SIGNALS[i] != signal) continue;
        if (previous[i].sa_flags & SA_SIGINFO) {
            previous[i].sa_sigaction(signal, info, context);
        } else if (previous[i].sa_handler == SIG_DFL || previous[i].sa_handler == SIG_IGN) {
            sigaction(signal, &previous[i], nullptr);  // the instruction faults again and meets it
        } else {
            previous[i].sa_handler(signal);
        }
    }
}

void on_timer(int, siginfo_t*, void*) {
    if (Worker* worker = local.worker) watch(*worker);
}

}  // namespace

FaultHandlers::FaultHandlers(bool wanted) : wanted_(wanted) {
    if (!wanted) return;
    pthread_mutex_lock(&mutex);
    if (users++ == 0) {
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < SIGNAL_COUNT; ++i) sigaction(SIGNALS[i], &action, &previous[i]);
        action.sa_sigaction = on_timer;
        action.sa_flags |= SA_RESTART;
        sigaction(watchdog_signal(), &action, &previous_watchdog);
    }
    pthread_mutex_unlock(&mutex);
}

FaultHandlers::~FaultHandlers() {
    if (!wanted_) return;
    pthread_mutex_lock(&mutex);
    if (--users == 0) {
        for (int i = 0; i < SIGNAL_COUNT; ++i) sigaction(SIGNALS[i], &previous[i], nullptr);
        sigaction(watchdog_signal(), &previous_watchdog, nullptr);
    }
    pthread_mutex_unlock(&mutex);
}

SignalStack::SignalStack(bool wanted) : previous_{}, memory_(wanted ? malloc(SIGNAL_STACK_BYTES) : nullptr) {
    if (memory_ == nullptr) return;
    stack_t stack = {};
    stack.ss_sp = memory_;
    stack.ss_size = SIGNAL_STACK_BYTES;
    sigaltstack(&stack, &previous_);
}

SignalStack::~SignalStack() {
    if (memory_ == nullptr) return;
    sigaltstack(&previous_, nullptr);
    free(memory_);
}

}  // namespace gemm_emu
