// Stacks for fibers, each below a page that faults, kept between launches.

#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace gemm_emu {

constexpr size_t STACK_BYTES = 64 * 1024;
// Stacks at equal distances would share a few cache sets; their tops are spread over this many lines.
constexpr size_t COLOURS = 32;
constexpr size_t COLOUR_BYTES = 192;

// One reservation of address space for the fibers of one block, mapped stack by stack as they start.
class StackPool {
public:
    static StackPool* create(unsigned capacity) {
        StackPool* pool = static_cast<StackPool*>(calloc(1, sizeof(StackPool)));
        if (pool == nullptr) return nullptr;
        pool->guard_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        pool->capacity_ = capacity;
        pool->free_ = static_cast<unsigned*>(malloc(capacity * sizeof(unsigned)));
        void* memory = mmap(nullptr, pool->bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        pool->memory_ = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
        if (pool->memory_ == nullptr || pool->free_ == nullptr) {
            destroy(pool);
            return nullptr;
        }
        return pool;
    }

    static void destroy(StackPool* pool) {
        if (pool->memory_ != nullptr) munmap(pool->memory_, pool->bytes());
        free(pool->free_);
        free(pool);
    }

    unsigned capacity() const { return capacity_; }

    // Index of a stack nobody uses, or -1 when the machine has no memory left.
    int take() {
        if (free_count_ > 0) return static_cast<int>(free_[--free_count_]);
        if (mprotect(base(mapped_), STACK_BYTES, PROT_READ | PROT_WRITE) != 0) return -1;
        return static_cast<int>(mapped_++);
    }

    void give(int stack) { free_[free_count_++] = static_cast<unsigned>(stack); }

    void give_all() {
        free_count_ = 0;
        for (unsigned stack = mapped_; stack > 0; --stack) give(static_cast<int>(stack - 1));
    }

    char* base(unsigned stack) const { return memory_ + stack * (STACK_BYTES + guard_) + guard_; }
    static size_t usable(int stack) {
        return STACK_BYTES - (static_cast<size_t>(stack) % COLOURS) * COLOUR_BYTES;
    }

    bool holds(const char* address) const { return address >= memory_ && address < memory_ + bytes(); }

    bool in_guard(const char* address) const {
        return holds(address) && static_cast<size_t>(address - memory_) % (STACK_BYTES + guard_) < guard_;
    }

    StackPool* next = nullptr;

private:
    size_t bytes() const { return capacity_ * (STACK_BYTES + guard_); }

    char* memory_;
    size_t guard_;
    unsigned capacity_;
    unsigned mapped_;
    unsigned* free_;
    unsigned free_count_;
};

// Pools not in use.  Few are kept: each stack costs two of the mappings a process may have.
class IdlePools {
public:
    StackPool* take(unsigned capacity) {
        pthread_mutex_lock(&mutex_);
        StackPool** link = &first_;
        while (*link != nullptr && (*link)->capacity() < capacity) link = &(*link)->next;
        StackPool* pool = *link;
        if (pool != nullptr) {
            *link = pool->next;
            stacks_ -= pool->capacity();
        }
        pthread_mutex_unlock(&mutex_);
        return pool != nullptr ? pool : StackPool::create(capacity);
    }

    void give(StackPool* pool) {
        pool->give_all();
        pthread_mutex_lock(&mutex_);
        const bool keep = stacks_ + pool->capacity() <= LIMIT;
        if (keep) {
            pool->next = first_;
            first_ = pool;
            stacks_ += pool->capacity();
        }
        pthread_mutex_unlock(&mutex_);
        if (!keep) StackPool::destroy(pool);
    }

    void clear() {
        while (first_ != nullptr) {
            StackPool* next = first_->next;
            StackPool::destroy(first_);
            first_ = next;
        }
    }

private:
    static constexpr unsigned LIMIT = 2048;

    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    StackPool* first_ = nullptr;
    unsigned stacks_ = 0;
};

}  // namespace gemm_emu
