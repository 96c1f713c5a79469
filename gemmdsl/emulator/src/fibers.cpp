// The threads of a block as fibers, between barriers.

#define GEMM_EMU_DEFINE_SWITCH 1

#include "checker.h"
#include "gemm_emulator.h"
#include "worker.h"

// The kernel's shared variables lie before the emulator's own, and the guard between: a section with a longer
// name comes later, and the emulator is linked last.
#define GEMM_EMU_OWN __thread __attribute__((section(".tbss.own")))

static __thread __attribute__((used)) char guard[4096];
GEMM_EMU_OWN gemm_emu::Index3 threadIdx;
GEMM_EMU_OWN gemm_emu::Index3 blockIdx;
GEMM_EMU_OWN gemm_emu::Index3 blockDim;
GEMM_EMU_OWN gemm_emu::Index3 gridDim;

namespace gemm_emu {

GEMM_EMU_OWN Local local;

namespace {

uint64_t next_random(uint64_t& state) {  // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void shuffle_order(Worker& worker) {
    for (unsigned i = worker.count; i > 1; --i) {
        const unsigned j = static_cast<unsigned>(next_random(worker.random) % i);
        const unsigned other = worker.order[i - 1];
        worker.order[i - 1] = worker.order[j];
        worker.order[j] = other;
    }
}

bool can_run(const Worker& worker, const Fiber& fiber) {
    return fiber.wait == Wait::Start || fiber.wait == Wait::Ready ||
           (fiber.wait == Wait::Barrier && fiber.phase != worker.phase);
}

// The next fiber that can go on, in the block's order from `first`; null when all wait or are done.
Fiber* choose(Worker& worker, unsigned first) {
    unsigned position = first;
    for (unsigned tried = 0; tried < worker.count; ++tried, ++position) {
        if (position == worker.count) position = 0;
        Fiber& fiber = worker.fibers[worker.order[position]];
        if (can_run(worker, fiber)) {
            worker.cursor = position;
            return &fiber;
        }
    }
    return nullptr;
}

// Makes `fiber` the one that the kernel sees as running.
void enter(Worker& worker, Fiber& fiber) {
    threadIdx = fiber.index;
    check_switch(static_cast<unsigned>(&fiber - worker.fibers));
}

}  // namespace

unsigned after(const Worker& worker) { return worker.cursor + 1 == worker.count ? 0 : worker.cursor + 1; }

namespace {

// Runs threads one after the other for as long as they neither wait nor are waited for.
void fiber_main() {
    Worker& worker = *local.worker;
    for (;;) {
        Fiber& fiber = worker.running();
        fiber.wait = Wait::Ready;
        worker.job->launch->invoke(worker.job->launch->closure);
        fiber.wait = Wait::Done;
        fiber.copies.count = 0;
        Fiber* next = choose(worker, after(worker));
        if (next != nullptr && next->wait == Wait::Start) {
            next->stack = fiber.stack;
            enter(worker, *next);
            continue;
        }
        worker.stacks->give(fiber.stack);
        if (next != nullptr) enter(worker, *next);
        switch_context(fiber.context, next != nullptr ? next->context : worker.scheduler);
    }
}

// Gives a fiber that has not started a stack; false when there is no memory for one.
bool start(Worker& worker, Fiber& fiber) {
    fiber.stack = worker.stacks->take();
    if (fiber.stack < 0) {
        set_message(worker, "out of memory: no stack for thread %u of a block of %u",
                    static_cast<unsigned>(&fiber - worker.fibers), worker.count);
        return false;
    }
    prepare(fiber.context, worker.stacks->base(static_cast<unsigned>(fiber.stack)),
            StackPool::usable(fiber.stack), fiber_main);
    return true;
}

}  // namespace

void yield(Worker& worker, unsigned first) {
    Fiber& fiber = worker.running();
    Fiber* next = choose(worker, first);
    if (next == &fiber) {
        fiber.wait = Wait::Ready;
        enter(worker, fiber);  // its clock may have advanced
        return;
    }
    if (next == nullptr) {
        switch_context(fiber.context, worker.scheduler);
    } else {
        if (next->wait == Wait::Start && !start(worker, *next)) abandon(worker);
        enter(worker, *next);
        switch_context(fiber.context, next->context);
    }
    fiber.wait = Wait::Ready;
}

namespace {

void run_fibers(Worker& worker) {
    Fiber* first = choose(worker, 0);
    if (!start(worker, *first)) return;
    enter(worker, *first);
    switch_context(worker.scheduler, first->context);
    if (worker.failed) return;
    for (unsigned i = 0; i < worker.count; ++i) {
        if (worker.fibers[i].wait != Wait::Done) {
            explain_standstill(worker);
            return;
        }
    }
}

}  // namespace

[[noreturn]] void abandon(Worker& worker) {
    switch_context(worker.running().context, worker.scheduler);
    __builtin_unreachable();
}

void run_block(Worker& worker, uint64_t block) {
    const Launch& launch = *worker.job->launch;
    poison(worker.shared);
    const uint64_t row = block / launch.grid.x;
    blockIdx = {static_cast<unsigned>(block % launch.grid.x), static_cast<unsigned>(row % launch.grid.y),
                static_cast<unsigned>(row / launch.grid.y)};
    blockDim = launch.block;
    gridDim = launch.grid;
    worker.phase = worker.arrived = 0;
    worker.divergent = worker.failed = false;
    worker.stacks->give_all();
    for (unsigned i = 0; i < worker.count; ++i) {
        Fiber& fiber = worker.fibers[i];
        fiber.wait = Wait::Start;
        fiber.copies.count = fiber.copies.committed = 0;
    }
    if (worker.job->options.order == SEEDED) {
        worker.random = worker.job->options.seed ^ (block * 0x9e3779b97f4a7c15u);
        shuffle_order(worker);
    }
    check_block_begins(worker);
    worker.ticks = 0;
    worker.busy = false;
    if (!worker.failed && sigsetjmp(worker.fault, 1) == 0) {
        worker.interruptible = true;
        run_fibers(worker);
    }
    worker.interruptible = false;
    check_block_ends();
}

void barrier(int line) {
    Worker& worker = *local.worker;
    Fiber& fiber = worker.running();
    if (worker.arrived == 0) worker.barrier_line = line;
    worker.divergent |= line != worker.barrier_line;
    fiber.line = line;
    fiber.phase = worker.phase;
    fiber.wait = Wait::Barrier;
    if (++worker.arrived < worker.count) {
        yield(worker, after(worker));
        return;
    }
    if (worker.divergent) {
        explain_standstill(worker);
        abandon(worker);
    }
    worker.arrived = 0;
    ++worker.phase;
    check_barrier();
    if (worker.job->options.order == SEEDED) {
        const unsigned running = worker.order[worker.cursor];
        shuffle_order(worker);
        while (worker.order[worker.cursor] != running) worker.cursor = after(worker);
    }
    yield(worker, 0);
}

}  // namespace gemm_emu
