// A worker is an operating-system thread that runs one block at a time, a fiber per CUDA thread.

#pragma once

#include <pthread.h>

#include <time.h>

#include <atomic>
#include <csetjmp>

#include "context.h"
#include "gemm_emulator.h"
#include "shared_memory.h"
#include "stacks.h"

namespace gemm_emu {

constexpr unsigned WARP_LANES = 32;

enum class Wait : uint8_t { Start, Ready, Barrier, Warp, Done };

struct Copy {
    void* shared;
    const void* global;
    uint8_t bytes;
    uint8_t zero_fill;
    unsigned group;
};

// Copies of one thread that have been issued and not landed, oldest first.
struct CopyQueue {
    Copy* items;
    unsigned count;
    unsigned capacity;
    unsigned committed;
};

struct Fiber {
    Index3 index;
    Context context;
    int stack;
    Wait wait;
    bool is_ballot;
    bool predicate;
    int line;
    int source;
    uint32_t mask;
    unsigned phase;
    uint64_t value;
    uint64_t result;
    CopyQueue copies;
};

// One launch.
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

struct Worker {
    Job* job;
    Context scheduler;
    sigjmp_buf fault;
    StackPool* stacks;
    SharedMemory shared;
    Fiber* fibers;
    unsigned* order;
    unsigned count;    // threads of the block
    unsigned cursor;   // position in `order` of the running fiber
    unsigned arrived;  // at the current barrier
    unsigned phase;    // barriers passed by the whole block
    int barrier_line;
    bool divergent;
    timer_t timer;     // of the watchdog
    // Also looked at from its signal's handler.
    volatile bool failed;
    volatile bool interruptible;  // a fiber runs, and the block may be left through `fault`
    volatile bool busy;           // with what must not be left half done
    volatile int ticks;           // of the timer since the block began
    uint64_t random;
    char message[sizeof(Local::message)];

    Fiber& running() { return fibers[order[cursor]]; }
};

// Runs one block, numbered along x, y, z; what went wrong is in the worker.
void run_block(Worker& worker, uint64_t block);
// Lets other threads run until the running one can go on, beginning the search at position `first`.
void yield(Worker& worker, unsigned first);
// The position after the running fiber's.
unsigned after(const Worker& worker);
// Says why no thread of the block can go on.
void explain_standstill(Worker& worker);
// Puts a formatted message into the worker, once.
__attribute__((format(printf, 2, 3))) void set_message(Worker& worker, const char* format, ...);
// Leaves the running fiber for good and ends the block; the message has been set.
[[noreturn]] void abandon(Worker& worker);

}  // namespace gemm_emu
