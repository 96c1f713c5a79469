// Asynchronous copies, which land when their group is waited for.

#include <cstdlib>
#include <cstring>

#include "checker.h"
#include "gemm_emulator.h"
#include "worker.h"

namespace gemm_emu {

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
        worker.busy = true;
        Copy* items = static_cast<Copy*>(realloc(queue.items, capacity * sizeof(Copy)));
        if (items == nullptr) {
            set_message(worker, "out of memory: %u asynchronous copies of thread %u wait", queue.count, number);
            abandon(worker);
        }
        queue.items = items;
        queue.capacity = capacity;
        worker.busy = false;
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

}  // namespace gemm_emu
