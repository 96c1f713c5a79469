// Runs a grid: blocks over operating-system threads, and the threads of a block as fibers between barriers.

#define GEMM_EMU_DEFINE_SWITCH 1

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "checker.h"
#include "faults.h"
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

struct Job {
    const Launch* launch;
    Options options;
    uint64_t blocks;
    std::atomic<uint64_t> next;       // position of the next block to run
    std::atomic<uint64_t> end;        // no block from here on is started
    pthread_mutex_t mutex;
    uint64_t failed_at;               // lowest position of a block that failed, or `blocks`
    char message[sizeof(Local::message)];
};

namespace {

constexpr int SUCCESS = 0;
constexpr int INVALID_VALUE = 1;
constexpr int INVALID_CONFIGURATION = 9;
constexpr int LAUNCH_FAILURE = 719;

constexpr unsigned MAX_WORKERS = 8;
constexpr uint64_t THREADS_WORTH_A_WORKER = 1024;

IdlePools idle_pools;

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

unsigned after(const Worker& worker) { return worker.cursor + 1 == worker.count ? 0 : worker.cursor + 1; }

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

// Lets other threads run until the running one can go on, beginning the search at position `first`.
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
    if (!worker.failed && sigsetjmp(worker.fault, 1) == 0) run_fibers(worker);
    check_block_ends();
}

void record_failure(Job& job, uint64_t position, const char* message) {
    pthread_mutex_lock(&job.mutex);
    if (position < job.failed_at) {
        job.failed_at = position;
        memcpy(job.message, message, sizeof job.message);
        job.end.store(position);
    }
    pthread_mutex_unlock(&job.mutex);
}

uint64_t block_at(const Job& job, uint64_t position) {
    switch (job.options.order) {
        case REVERSED: return job.blocks - 1 - position;
        case SEEDED: return (position + job.options.seed) % job.blocks;
        default: return position;
    }
}

void free_worker(Worker* worker) {
    if (worker->stacks != nullptr) idle_pools.give(worker->stacks);
    if (worker->fibers != nullptr) {
        for (unsigned i = 0; i < worker->count; ++i) free(worker->fibers[i].copies.items);
    }
    free(worker->fibers);
    free(worker->order);
    free(worker);
}

Worker* new_worker(Job& job) {
    const Launch& launch = *job.launch;
    Worker* worker = static_cast<Worker*>(calloc(1, sizeof(Worker)));
    if (worker == nullptr) return nullptr;
    worker->job = &job;
    worker->count = launch.block.x * launch.block.y * launch.block.z;
    worker->fibers = static_cast<Fiber*>(calloc(worker->count, sizeof(Fiber)));
    worker->order = static_cast<unsigned*>(calloc(worker->count, sizeof(unsigned)));
    worker->stacks = idle_pools.take(worker->count);
    if (worker->fibers == nullptr || worker->order == nullptr || worker->stacks == nullptr) {
        free_worker(worker);
        return nullptr;
    }
    for (unsigned i = 0; i < worker->count; ++i) {
        const unsigned row = i / launch.block.x;
        worker->fibers[i].index = {i % launch.block.x, row % launch.block.y, row / launch.block.y};
        worker->order[i] = job.options.order == REVERSED ? worker->count - 1 - i : i;
    }
    return worker;
}

void run_blocks(Job& job) {
    Worker* worker = new_worker(job);
    if (worker == nullptr) {
        char message[sizeof(Local::message)] = "out of memory: no room for the fibers of a block";
        record_failure(job, 0, message);
        return;
    }
    Worker* outer = local.worker;
    local.worker = worker;
    worker->shared = find_shared_memory();
    SignalStack signal_stack;
    for (;;) {
        const uint64_t position = job.next.fetch_add(1);
        if (position >= job.end.load()) break;
        run_block(*worker, block_at(job, position));
        if (worker->failed) record_failure(job, position, worker->message);
    }
    local.worker = outer;
    free_worker(worker);
}

void* run_on_thread(void* argument) {
    run_blocks(*static_cast<Job*>(argument));
    return nullptr;
}

unsigned worker_count(const Job& job, uint64_t threads) {
    // The checker's memory is that of one block.
    if (CHECKED) return 1;
    uint64_t count = job.options.workers > 0 ? static_cast<uint64_t>(job.options.workers) : MAX_WORKERS;
    if (job.options.workers == 0) {
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);
        if (processors > 0 && static_cast<uint64_t>(processors) < count) count = static_cast<uint64_t>(processors);
        if (1 + threads / THREADS_WORTH_A_WORKER < count) count = 1 + threads / THREADS_WORTH_A_WORKER;
    }
    if (count > job.blocks) count = job.blocks;
    return static_cast<unsigned>(count < MAX_WORKERS ? count : MAX_WORKERS);
}

__attribute__((format(printf, 2, 3))) int refuse(int status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(local.message, sizeof local.message, format, arguments);
    va_end(arguments);
    return status;
}

int check_geometry(const Launch& launch) {
    const Index3 g = launch.grid, b = launch.block;
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) {
        return refuse(INVALID_CONFIGURATION,
                      "grid of %u x %u x %u blocks: each axis must have 1 to 2147483647 x 65535 x 65535", g.x, g.y,
                      g.z);
    }
    if (b.x == 0 || b.y == 0 || b.z == 0 || b.x > 1024 || b.y > 1024 || b.z > 64 ||
        static_cast<uint64_t>(b.x) * b.y * b.z > 1024) {
        return refuse(INVALID_CONFIGURATION, "block of %u x %u x %u threads: a block has 1 to 1024 threads", b.x, b.y,
                      b.z);
    }
    const int64_t dynamic_bytes = static_cast<int64_t>(launch.dynamic_shared);
    const int64_t total = dynamic_bytes + local.options.static_shared;
    if (local.options.shared_limit > 0 && total > local.options.shared_limit) {
        return refuse(INVALID_VALUE, "a block needs %lld bytes of shared memory and the target has %lld",
                      static_cast<long long>(total), static_cast<long long>(local.options.shared_limit));
    }
    const int64_t raised = raised_dynamic_shared(launch.kernel);
    const int64_t limit = local.options.optin_limit;
    if (raised >= 0 ? dynamic_bytes > raised : limit > 0 && total > limit) {
        return refuse(INVALID_VALUE,
                      "a block needs %lld bytes of shared memory and the kernel may have %lld: "
                      "cudaFuncAttributeMaxDynamicSharedMemorySize has to be raised",
                      static_cast<long long>(raised >= 0 ? dynamic_bytes : total),
                      static_cast<long long>(raised >= 0 ? raised : limit));
    }
    if (dynamic_bytes > dynamic_shared_capacity()) {
        return refuse(INVALID_VALUE, "a block needs %lld bytes of dynamic shared memory and the kernel declares none",
                      static_cast<long long>(dynamic_bytes));
    }
    return SUCCESS;
}

}  // namespace

[[noreturn]] void abandon(Worker& worker) {
    switch_context(worker.running().context, worker.scheduler);
    __builtin_unreachable();
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

namespace {

// Completes a rendezvous when all lanes of the running fiber's mask have come with the same mask.
void meet(Worker& worker) {
    Fiber& fiber = worker.running();
    const unsigned number = worker.order[worker.cursor];
    Fiber* lanes = worker.fibers + number / WARP_LANES * WARP_LANES;
    const unsigned lane_count =
        worker.count - number / WARP_LANES * WARP_LANES < WARP_LANES ? worker.count % WARP_LANES : WARP_LANES;
    // Lanes beyond the end of the block do not exist; a full mask does not wait for them.
    const uint32_t existing = lane_count == WARP_LANES ? 0xffffffffu : (1u << lane_count) - 1;
    const uint32_t mask = fiber.mask & existing;
    if ((mask >> (number % WARP_LANES) & 1) == 0) {
        set_message(worker, "thread %u is not in the mask %#x of the warp operation on line %d", number, fiber.mask,
                    fiber.line);
        abandon(worker);
    }
    uint32_t votes = 0;
    bool complete = true;
    for (unsigned lane = 0; lane < lane_count; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const Fiber& other = lanes[lane];
        complete &= other.wait == Wait::Warp && other.mask == fiber.mask && other.is_ballot == fiber.is_ballot;
        votes |= static_cast<uint32_t>(other.predicate) << lane;
    }
    if (!complete) return;
    for (unsigned lane = 0; lane < lane_count; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        Fiber& other = lanes[lane];
        if (!other.is_ballot && (mask >> other.source & 1) == 0) {
            set_message(worker, "thread %u reads lane %d, which is not in the mask %#x, on line %d",
                        static_cast<unsigned>(&other - worker.fibers), other.source, other.mask, other.line);
            abandon(worker);
        }
        other.result = other.is_ballot ? votes : lanes[other.source].value;
        other.wait = Wait::Ready;
    }
    check_rendezvous(static_cast<unsigned>(lanes - worker.fibers), mask);
}

uint64_t rendezvous(Worker& worker) {
    Fiber& fiber = worker.running();
    fiber.wait = Wait::Warp;
    meet(worker);
    yield(worker, after(worker));
    return fiber.result;
}

}  // namespace

uint64_t exchange(uint32_t mask, uint64_t value, int source, int line) {
    Worker& worker = *local.worker;
    Fiber& fiber = worker.running();
    fiber.mask = mask;
    fiber.value = value;
    fiber.source = source & (WARP_LANES - 1);
    fiber.line = line;
    fiber.is_ballot = false;
    return rendezvous(worker);
}

uint32_t ballot(uint32_t mask, bool predicate, int line) {
    Worker& worker = *local.worker;
    Fiber& fiber = worker.running();
    fiber.mask = mask;
    fiber.predicate = predicate;
    fiber.line = line;
    fiber.is_ballot = true;
    return static_cast<uint32_t>(rendezvous(worker));
}

namespace {

void make(const Copy& copy) {
    const size_t read = copy.bytes - copy.zero_fill;
    memcpy(copy.shared, copy.global, read);
    memset(static_cast<char*>(copy.shared) + read, 0, copy.zero_fill);
}

}  // namespace

void copy_async(void* shared, const void* global, size_t size, size_t zero_fill, int line) {
    Worker& worker = *local.worker;
    Fiber& fiber = worker.running();
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global);
    const unsigned number = worker.order[worker.cursor];
    if ((size != 4 && size != 8 && size != 16) || zero_fill > size) {
        set_message(worker, "asynchronous copy of %zu bytes, %zu of them zero, by thread %u on line %d", size, zero_fill,
                    number, line);
        abandon(worker);
    }
    if (addresses % size != 0) {
        set_message(worker, "asynchronous copy of %zu bytes between misaligned addresses %p and %p, by thread %u on line %d",
                    size, global, shared, number, line);
        abandon(worker);
    }
    const Copy copy{shared, global, static_cast<uint8_t>(size), static_cast<uint8_t>(zero_fill), fiber.copies.committed};
    check_copy_issued(shared, global, copy.bytes, copy.zero_fill, __builtin_return_address(0));
    if (worker.job->options.early_copies) make(copy);
    CopyQueue& queue = fiber.copies;
    if (queue.count == queue.capacity) {
        const unsigned capacity = queue.capacity == 0 ? 16 : 2 * queue.capacity;
        Copy* items = static_cast<Copy*>(realloc(queue.items, capacity * sizeof(Copy)));
        if (items == nullptr) {
            set_message(worker, "out of memory: %u asynchronous copies of thread %u wait", queue.count, number);
            abandon(worker);
        }
        queue.items = items;
        queue.capacity = capacity;
    }
    queue.items[queue.count++] = copy;
}

void copy_commit() { ++local.worker->running().copies.committed; }

void copy_wait(size_t pending_groups) {
    Worker& worker = *local.worker;
    CopyQueue& queue = worker.running().copies;
    if (pending_groups >= queue.committed) return;
    const unsigned landing = queue.committed - static_cast<unsigned>(pending_groups);
    unsigned landed = 0;
    for (; landed < queue.count && queue.items[landed].group < landing; ++landed) {
        const Copy& copy = queue.items[landed];
        if (!worker.job->options.early_copies) make(copy);
        check_copy_landed(copy.shared, copy.bytes);
    }
    queue.count -= landed;
    memmove(queue.items, queue.items + landed, queue.count * sizeof(Copy));
}

int launch(const Launch& launch) {
    local.message[0] = 0;
    local.kernel = launch.kernel;
    const int refused = check_geometry(launch);
    if (refused != SUCCESS) return refused;
    const uint64_t blocks = static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
    Job job{&launch, local.options, blocks, {0}, {blocks}, PTHREAD_MUTEX_INITIALIZER, blocks, {}};
    const uint64_t threads = blocks * launch.block.x * launch.block.y * launch.block.z;
    if (!check_launch_begins(launch)) return refuse(LAUNCH_FAILURE, "out of memory: no shadow for C");
    FaultHandlers handlers;
    pthread_t helpers[MAX_WORKERS];
    unsigned started = 0;
    for (unsigned wanted = worker_count(job, threads); started + 1 < wanted; ++started) {
        // Fewer workers only take longer.
        if (pthread_create(&helpers[started], nullptr, run_on_thread, &job) != 0) break;
    }
    run_blocks(job);
    for (unsigned i = 0; i < started; ++i) pthread_join(helpers[i], nullptr);
    if (job.failed_at == blocks) return check_launch_ends() ? SUCCESS : LAUNCH_FAILURE;
    memcpy(local.message, job.message, sizeof local.message);
    return LAUNCH_FAILURE;
}

__attribute__((destructor)) static void release_stacks() { idle_pools.clear(); }

}  // namespace gemm_emu

extern "C" {

__attribute__((visibility("default"))) void gemm_emu_configure(const gemm_emu::Options* options) {
    gemm_emu::local.options = *options;
    gemm_emu::local.message[0] = 0;
    gemm_emu::local.kernel = nullptr;
}

// Why the last launch of the calling thread failed; empty when it did not.
__attribute__((visibility("default"))) const char* gemm_emu_message() { return gemm_emu::local.message; }

// Address of the kernel that the calling thread launched last; null when it launched none.
__attribute__((visibility("default"))) const void* gemm_emu_kernel() { return gemm_emu::local.kernel; }
}
