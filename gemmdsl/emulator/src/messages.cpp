// Messages for kernels that stop: which threads wait where, and which have left.

#include <cstdarg>
#include <cstdio>

#include "worker.h"

namespace gemm_emu {

void set_message(Worker& worker, const char* format, ...) {
    if (worker.failed) return;
    worker.failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(worker.message, sizeof worker.message, format, arguments);
    va_end(arguments);
}

namespace {

struct Text {
    char* at;
    size_t left;

    __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
        va_list arguments;
        va_start(arguments, format);
        const int wrote = vsnprintf(at, left, format, arguments);
        va_end(arguments);
        const size_t step = wrote < 0 ? 0 : static_cast<size_t>(wrote) < left ? wrote : left - 1;
        at += step;
        left -= step;
    }
};

bool same_group(const Fiber& a, const Fiber& b) {
    return a.wait == b.wait && (a.wait == Wait::Done || a.line == b.line);
}

// "0-3, 8 and 12-31", shortened after a few ranges.
void add_ranges(Text& text, const Worker& worker, const Fiber& example) {
    constexpr int SHOWN = 6;
    int ranges = 0;
    for (unsigned i = 0; i < worker.count;) {
        if (!same_group(worker.fibers[i], example)) {
            ++i;
            continue;
        }
        unsigned last = i;
        while (last + 1 < worker.count && same_group(worker.fibers[last + 1], example)) ++last;
        if (ranges == SHOWN) {
            text.add(", ...");
            return;
        }
        text.add(ranges == 0 ? "%u" : ", %u", i);
        if (last > i) text.add("-%u", last);
        ++ranges;
        i = last + 1;
    }
}

void add_group(Text& text, const Worker& worker, const Fiber& example) {
    unsigned size = 0;
    for (unsigned i = 0; i < worker.count; ++i) size += same_group(worker.fibers[i], example);
    text.add("%s ", size == 1 ? "thread" : "threads");
    add_ranges(text, worker, example);
    text.add(" (%u of %u) ", size, worker.count);
    const char* verb = size == 1 ? "waits" : "wait";
    switch (example.wait) {
        case Wait::Done: text.add("%s returned", size == 1 ? "has" : "have"); break;
        case Wait::Barrier: text.add("%s at the barrier on line %d", verb, example.line); break;
        case Wait::Warp: text.add("%s for lanes %#x on line %d", verb, example.mask, example.line); break;
        case Wait::Start:
        case Wait::Ready: text.add("can go on"); break;
    }
}

}  // namespace

void explain_standstill(Worker& worker) {
    bool warp = false;
    for (unsigned i = 0; i < worker.count; ++i) warp |= worker.fibers[i].wait == Wait::Warp;
    char groups[sizeof worker.message];
    groups[0] = 0;
    Text text{groups, sizeof groups};
    int shown = 0;
    for (unsigned i = 0; i < worker.count; ++i) {
        const Fiber& fiber = worker.fibers[i];
        bool first = true;
        for (unsigned j = 0; j < i && first; ++j) first = !same_group(worker.fibers[j], fiber);
        if (!first) continue;
        if (shown == 8) {
            text.add("; ...");
            break;
        }
        if (shown++ > 0) text.add("; ");
        add_group(text, worker, fiber);
    }
    set_message(worker, "%s in block (%u, %u, %u): %.1800s",
                warp ? "deadlock" : "barrier not reached by all threads", blockIdx.x, blockIdx.y, blockIdx.z, groups);
}

}  // namespace gemm_emu
