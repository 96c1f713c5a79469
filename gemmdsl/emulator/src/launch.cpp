// Runs a grid: its blocks over operating-system threads.

#include <pthread.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "checker.h"
#include "faults.h"
#include "gemm_emulator.h"
#include "watchdog.h"
#include "worker.h"

namespace gemm_emu {

namespace {

// Values of cudaError_t.
constexpr int SUCCESS = 0;
constexpr int INVALID_VALUE = 1;
constexpr int INVALID_CONFIGURATION = 9;
constexpr int LAUNCH_FAILURE = 719;

constexpr unsigned MAX_WORKERS = 8;
constexpr uint64_t THREADS_WORTH_A_WORKER = 1024;

IdlePools idle_pools;

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
    {
        SignalStack signal_stack(job.options.catch_faults);
        Watchdog watchdog(*worker);
        for (;;) {
            const uint64_t position = job.next.fetch_add(1);
            if (position >= job.end.load()) break;
            run_block(*worker, block_at(job, position));
            if (worker->failed) record_failure(job, position, worker->message);
        }
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

int launch(const Launch& launch) {
    local.message[0] = 0;
    if (local.launches < MAX_LAUNCHES) local.kernels[local.launches++] = launch.kernel;
    const int refused = check_geometry(launch);
    if (refused != SUCCESS) return refused;
    const uint64_t blocks = static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
    Job job{&launch, local.options, blocks, {0}, {blocks}, PTHREAD_MUTEX_INITIALIZER, blocks, {}};
    const uint64_t threads = blocks * launch.block.x * launch.block.y * launch.block.z;
    if (!check_launch_begins(launch)) return refuse(LAUNCH_FAILURE, "out of memory: no shadow for C");
    FaultHandlers handlers(job.options.catch_faults);
    pthread_t helpers[MAX_WORKERS];
    unsigned started = 0;
    for (unsigned wanted = worker_count(job, threads); started + 1 < wanted; ++started) {
        // Fewer workers only take longer.
        if (pthread_create(&helpers[started], nullptr, run_on_thread, &job) != 0) break;
    }
    run_blocks(job);
    for (unsigned i = 0; i < started; ++i) pthread_join(helpers[i], nullptr);
    if (job.failed_at == blocks) return SUCCESS;
    memcpy(local.message, job.message, sizeof local.message);
    return LAUNCH_FAILURE;
}

__attribute__((destructor)) static void release_stacks() { idle_pools.clear(); }

}  // namespace gemm_emu

extern "C" {

__attribute__((visibility("default"))) void gemm_emu_configure(const gemm_emu::Options* options) {
    gemm_emu::release_all();
    gemm_emu::local.options = *options;
    gemm_emu::local.message[0] = 0;
    gemm_emu::local.launches = 0;
}

// Why the last launch of the calling thread failed; empty when it did not.
__attribute__((visibility("default"))) const char* gemm_emu_message() { return gemm_emu::local.message; }

// Address of the kernel that the calling thread launched as number `index` since it configured the emulator;
// null beyond the last one.
__attribute__((visibility("default"))) const void* gemm_emu_kernel(uint32_t index) {
    return index < gemm_emu::local.launches ? gemm_emu::local.kernels[index] : nullptr;
}
}
