// Finds races, accesses outside of arrays, misaligned vectors and reads of what nobody wrote.
//
// Words of shared memory have a shadow each; operands are known by address, size and leading dimension.

#ifdef GEMM_EMU_CHECKED

#include "checker.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "outputs.h"
#include "shadow.h"
#include "stages.h"
#include "worker.h"

namespace gemm_emu {

namespace {

struct Checker {
    Watch watch;
    const Launch* launch;
    Worker* worker;
    Image image;
    Outputs outputs;
    Allocation allocation;
    uint32_t allocated_at;      // code of the allocation
    const char* wrong_release;  // the first of the call, in words; null for none
    uint32_t released_at;
    uint64_t launches;    // of the call
    uint64_t places[2];   // code of the accesses that the message calls {here} and {there}
    uint32_t latest;      // code of the last access
    uint8_t* foreign;     // per byte of code: arrays of a stage that an access from there must not touch
};

Shadow shadow;
Checker checker;

const char OPERAND_NAMES[] = "ABC";
constexpr int C = 2;

uint32_t place_of(const void* code) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - checker.image.begin);
}

uint64_t own_number() {
    const uint64_t row = blockIdx.y + static_cast<uint64_t>(gridDim.y) * blockIdx.z;
    const uint64_t block = blockIdx.x + gridDim.x * row;
    return block * MAX_THREADS + thread_of(shadow.stamp) + 1;
}

// Ends the block with a message; {here} and {there} in it stand for the places.
template <typename... Values>
[[noreturn]] void stop(uint32_t here, uint32_t there, const char* format, Values... values) {
    checker.places[0] = here;
    checker.places[1] = there;
    char text[1024];
    snprintf(text, sizeof text, format, values...);
    set_message(*checker.worker, "%s; thread %u of block (%u, %u, %u)", text, thread_of(shadow.stamp), blockIdx.x,
                blockIdx.y, blockIdx.z);
    abandon(*checker.worker);
}

// A finding, which ends the block when findings of its kind are wanted; if not, the run goes on.
template <typename... Values>
void report(Kind kind, uint32_t here, uint32_t there, const char* format, Values... values) {
    if (checker.watch.kinds & kind) stop(here, there, format, values...);
}

struct Name {
    char text[160];
};

bool is_live(const WatchedVariable& variable) {
    return variable.owner == nullptr || variable.owner == checker.launch->kernel;
}

uint64_t size_of(const WatchedVariable& variable) {
    return variable.bytes != 0 ? variable.bytes : checker.launch->dynamic_shared;
}

// "word 12 of tiles", or in a stage "stages[0].A[1][2]".
Name name_of(uintptr_t address) {
    Name name;
    const uint64_t offset = address - shadow.begin;
    for (uint32_t i = 0; i < checker.watch.variable_count; ++i) {
        const WatchedVariable& variable = checker.watch.variables[i];
        if (is_live(variable) && offset - variable.offset < size_of(variable)) {
            if (holds_stages(variable)) {
                name_stage_word(name.text, sizeof name.text, offset - variable.offset);
                return name;
            }
            snprintf(name.text, sizeof name.text, "word %llu of %s",
                     static_cast<unsigned long long>((offset - variable.offset) / WORD), variable.name);
            return name;
        }
    }
    snprintf(name.text, sizeof name.text, "shared memory");
    return name;
}

// Variables of the emulator itself lie in the same segment.
bool is_own(uintptr_t address) {
    const auto within = [address](const void* variable, size_t bytes) {
        return address - reinterpret_cast<uintptr_t>(variable) < bytes;
    };
    return within(&local, sizeof local) || within(&threadIdx, sizeof threadIdx) ||
           within(&blockIdx, sizeof blockIdx) || within(&blockDim, sizeof blockDim) ||
           within(&gridDim, sizeof gridDim);
}

void report_outside_variables(uintptr_t address, bool write, uint32_t here) {
    const uint64_t offset = address - shadow.begin;
    const WatchedVariable* nearest = nullptr;
    for (uint32_t i = 0; i < checker.watch.variable_count; ++i) {
        const WatchedVariable& variable = checker.watch.variables[i];
        if (!is_live(variable) || variable.offset > offset) continue;
        if (nearest == nullptr || variable.offset > nearest->offset) nearest = &variable;
    }
    if (nearest == nullptr) {
        report(MEMORY, here, here, "%s outside every shared variable {here}", write ? "write" : "read");
        return;
    }
    report(MEMORY, here, here, "%s outside %s {here}: byte %llu of %llu", write ? "write" : "read", nearest->name,
           static_cast<unsigned long long>(offset - nearest->offset),
           static_cast<unsigned long long>(size_of(*nearest)));
}

// One word of shared memory, with everything that can be wrong about it.
void check_word(uint64_t word, bool write, uint32_t here) {
    const uintptr_t address = shadow.begin + word * WORD;
    const uint32_t written = shadow.written[word], read = shadow.read[word];
    const unsigned thread = thread_of(shadow.stamp);
    if (written == NO_VARIABLE) {
        if (!write && is_own(address)) return;
        report_outside_variables(address, write, here);
        return;
    }
    if (shadow.array[word] & checker.foreign[here]) {
        report(MEMORY, here, here, "%s outside %s's tile {here}: it lands in %s", write ? "write" : "read",
               gemm_emu_stages.arrays[shadow.array[word] == 1 ? 1 : 0].name, name_of(address).text);
    }
    if (written == PADDING) {
        report(MEMORY, here, here, "%s of padding {here}: %s holds nothing", write ? "write" : "read",
               name_of(address).text);
        return;
    }
    if (written == IN_FLIGHT) {
        report(RACE, here, shadow.write_place[word],
               "%s of %s {here}, which an asynchronous copy issued {there} may still write: no wait between",
               write ? "write" : "read", name_of(address).text);
        return;
    }
    if (written == UNWRITTEN) {
        if (!write) report(INIT, here, here, "read of %s {here}, which no thread has written", name_of(address).text);
    } else if (!shadow.ordered(written)) {
        report(RACE, here, shadow.write_place[word],
               "race on %s: thread %u %s it {here} and thread %u wrote it {there}, with no barrier between",
               name_of(address).text, thread, write ? "writes" : "reads", thread_of(written));
    }
    if (write) {
        if (read != 0 && !shadow.ordered(read)) {
            report(RACE, here, shadow.read_place[word],
                   "race on %s: thread %u writes it {here} and thread %u read it {there}, with no barrier between",
                   name_of(address).text, thread, thread_of(read));
        }
        shadow.written[word] = shadow.stamp;
        shadow.write_place[word] = here;
        return;
    }
    const bool alone = read < shadow.floor || thread_of(read) == thread;
    shadow.read[word] = alone ? shadow.stamp | (read >= shadow.floor ? read & MANY : 0) : shadow.stamp | MANY;
    shadow.read_place[word] = here;
}

void report_misaligned(uintptr_t address, unsigned bytes, bool write, uint32_t here) {
    report(ALIGN, here, here, "misaligned %s of %u bytes {here}, at an address that is %llu more than a multiple",
           write ? "write" : "read", bytes, static_cast<unsigned long long>(address % bytes));
}

typedef uint32_t Words __attribute__((vector_size(16)));

bool any(Words mask) {
    typedef uint64_t Halves __attribute__((vector_size(16)));
    const Halves halves = reinterpret_cast<Halves>(mask);
    return (halves[0] | halves[1]) != 0;
}

Words load(const uint32_t* from) {
    Words words;
    memcpy(&words, from, sizeof words);
    return words;
}

void store(uint32_t* to, Words words) { memcpy(to, &words, sizeof words); }

// Four words at once when all were written before the last barrier, which is nearly always so.
bool check_four(uint64_t word, bool write, uint32_t here) {
    if (shadow.array[word] & checker.foreign[here]) return false;
    const Words written = load(shadow.written + word), read = load(shadow.read + word);
    if (write) {
        if (any((written >= shadow.floor) | (read >= shadow.floor))) return false;
        store(shadow.written + word, Words{} + shadow.stamp);
        store(shadow.write_place + word, Words{} + here);
        return true;
    }
    // UNWRITTEN is below every stamp: one comparison finds it and what is not below the floor.
    if (any((written - 1) >= (shadow.floor - 1))) return false;
    const Words fresh = read < shadow.floor, mine = (read & THREAD_MASK) == thread_of(shadow.stamp);
    const Words many = ~fresh & ((~mine & MANY) | (read & MANY));
    store(shadow.read + word, many | shadow.stamp);
    store(shadow.read_place + word, Words{} + here);
    return true;
}

int64_t extent_of(const WatchedOperand& operand) {
    return operand.lines > 0 && operand.width > 0 ? (operand.lines - 1) * operand.ld + operand.width : 0;
}

// One element of an operand that the access lies in.
void check_element(int i, int64_t element, bool write, uint32_t here) {
    const WatchedOperand& operand = checker.watch.operands[i];
    const char name = OPERAND_NAMES[i];
    const long long line = element / operand.ld, place = element % operand.ld;
    const long long row = operand.row_major ? line : place, column = operand.row_major ? place : line;
    if (place >= operand.width) {
        report(MEMORY, here, here, "%s of padding {here}: element %lld behind %s %lld of %c",
               write ? "write" : "read", place - static_cast<long long>(operand.width),
               operand.row_major ? "row" : "column", line, name);
        return;
    }
    if (!write && !operand.readable) {
        report(INIT, here, here, "read of %c[%lld, %lld] {here}, though its factor is 0", name, row, column);
    }
    if (i != C) return;
    uint64_t& writer = checker.outputs.writers[element];
    if (writer == ADDERS) {
        report(RACE, here, here, "race on C[%lld, %lld]: %s {here} while other threads add to it", row, column,
               write ? "written" : "read");
    }
    if (write) {
        if (checker.outputs.written[element]) {
            report(MEMORY, here, here, "C[%lld, %lld] is written a second time {here}", row, column);
        } else if (checker.outputs.has_any(element)) {
            report(MEMORY, here, here, "C[%lld, %lld] is written {here} after parts were added to it", row, column);
        }
        writer = own_number();
        checker.outputs.written[element] = 1;
    } else if (writer != 0 && writer != own_number()) {
        report(RACE, here, here, "race on C[%lld, %lld]: read {here} after another thread wrote it", row, column);
    }
}

// A part of K is added to an element of C: the part is the block's place along y.
void check_addition(int64_t element, uint32_t here) {
    const WatchedOperand& operand = checker.watch.operands[C];
    const long long line = element / operand.ld, place = element % operand.ld;
    const long long row = operand.row_major ? line : place, column = operand.row_major ? place : line;
    Outputs& outputs = checker.outputs;
    if (place >= operand.width) {
        report(MEMORY, here, here, "addition to padding {here}: element %lld behind %s %lld of C",
               place - static_cast<long long>(operand.width), operand.row_major ? "row" : "column", line);
        return;
    }
    if (blockIdx.y >= checker.watch.parts) {
        report(MEMORY, here, here, "addition to C[%lld, %lld] {here}, of part %u of %u", row, column, blockIdx.y,
               checker.watch.parts);
        return;
    }
    uint64_t& writer = outputs.writers[element];
    if (writer != 0 && writer != ADDERS) {
        report(RACE, here, here, "race on C[%lld, %lld]: added to {here} after a thread wrote it", row, column);
    } else if (checker.watch.scaled && !outputs.written[element]) {
        report(INIT, here, here, "C[%lld, %lld] is added to {here} before it is scaled", row, column);
    }
    if (outputs.has(element, blockIdx.y)) {
        report(MEMORY, here, here, "part %u is added to C[%lld, %lld] a second time {here}", blockIdx.y, row, column);
    }
    outputs.add(element, blockIdx.y);
    writer = ADDERS;
}

// One word of memory that the call allocated.
void check_allocated_word(uint64_t word, bool write, uint32_t here) {
    uint64_t& writer = checker.allocation.writers[word];
    const unsigned long long number = word;
    const uint64_t own = checker.launches << LAUNCH_SHIFT | own_number();
    if (write) {
        if (writer != 0) report(MEMORY, here, here, "word %llu of the workspace is written a second time {here}", number);
        writer = own;
    } else if (writer == 0) {
        report(INIT, here, here, "read of word %llu of the workspace {here}, which no thread has written", number);
    } else if (writer >> LAUNCH_SHIFT == checker.launches && writer != own) {
        report(RACE, here, here, "race on word %llu of the workspace: read {here} after another thread wrote it", number);
    }
}

// An access outside of shared memory.
void check_elsewhere(uintptr_t address, unsigned bytes, bool write, uint32_t here) {
    constexpr int64_t NEAR = 1 << 16;
    if (checker.worker->stacks->holds(reinterpret_cast<const char*>(address))) return;
    if (checker.allocation.holds(address, bytes)) {
        if (address % bytes != 0) report_misaligned(address, bytes, write, here);
        const uint64_t first = (address - checker.allocation.address) / WORD;
        for (unsigned word = 0; word < (bytes + WORD - 1) / WORD; ++word) check_allocated_word(first + word, write, here);
        return;
    }
    const char* near_name = nullptr;
    int64_t near_distance = NEAR;
    for (int i = 0; i < 3; ++i) {
        const WatchedOperand& operand = checker.watch.operands[i];
        const int64_t extent = extent_of(operand);
        const int64_t first = static_cast<int64_t>(address - operand.address);
        if (first >= 0 && first + bytes <= extent * WORD) {
            if (address % bytes != 0) report_misaligned(address, bytes, write, here);
            if (write && i != C) report(MEMORY, here, here, "write to %c {here}", OPERAND_NAMES[i]);
            for (int64_t element = first / WORD; element * WORD < first + bytes; ++element) {
                check_element(i, element, write, here);
            }
            return;
        }
        // Below zero before the operand, else behind it or across its end.
        const int64_t distance = first < 0 ? first : first > extent * WORD ? first - extent * WORD : 0;
        if (llabs(distance) < llabs(near_distance)) {
            near_name = &OPERAND_NAMES[i];
            near_distance = distance;
        }
    }
    if (!write && address - checker.image.begin < checker.image.bytes) return;
    const int64_t behind = static_cast<int64_t>(address - (checker.allocation.address + checker.allocation.bytes));
    if (checker.allocation.writers != nullptr && behind >= 0 && behind < llabs(near_distance)) {
        report(MEMORY, here, here, "%s outside the workspace {here}, %lld bytes behind its last word",
               write ? "write" : "read", static_cast<long long>(behind));
        return;
    }
    if (near_name != nullptr) {
        report(MEMORY, here, here, "%s outside %c {here}, %lld bytes %s", write ? "write" : "read", *near_name,
               static_cast<long long>(near_distance < 0 ? -near_distance : near_distance),
               near_distance < 0 ? "before its first element" : "behind its last element");
        return;
    }
    report(MEMORY, here, here, "%s outside every array {here}, at address %#llx", write ? "write" : "read",
           static_cast<unsigned long long>(address));
}

inline void check_access(uintptr_t address, unsigned bytes, bool write, const void* code) {
    const uint64_t offset = address - shadow.begin;
    const uint32_t here = place_of(code);
    checker.latest = here;
    if (offset < shadow.bytes) {
        const uint64_t word = offset / WORD;
        if (address % bytes != 0 && !is_own(address)) report_misaligned(address, bytes, write, here);
        if (bytes == 16 && check_four(word, write, here)) return;
        for (unsigned i = 0; i < (bytes + WORD - 1) / WORD; ++i) check_word(word + i, write, here);
    } else if (checker.worker != nullptr) {
        check_elsewhere(address, bytes, write, here);
    }
}

void check_elements(uintptr_t address, unsigned bytes, bool write, const void* code) {
    const unsigned step = bytes < WORD ? bytes : WORD;
    for (unsigned done = 0; done < bytes; done += step) check_access(address + done, step, write, code);
}

void check_range(uintptr_t address, uint64_t bytes, bool write, const void* code) {
    for (uint64_t done = 0; done + WORD <= bytes; done += WORD) check_access(address + done, WORD, write, code);
}

bool prepare_image() {
    if (checker.foreign != nullptr) return true;
    checker.image = find_image();
    checker.foreign = static_cast<uint8_t*>(calloc(checker.image.bytes, 1));
    return checker.foreign != nullptr;
}

void lay_out_stages(const WatchedVariable& variable) {
    const StageLayout& layout = gemm_emu_stages;
    for (uint64_t stage = 0; stage + layout.stage_bytes <= size_of(variable); stage += layout.stage_bytes) {
        const uint64_t first = (variable.offset + stage) / WORD;
        for (uint64_t word = first; word < first + layout.stage_bytes / WORD; ++word) shadow.written[word] = PADDING;
        for (uint32_t i = 0; i < layout.array_count; ++i) {
            const StageArray& array = layout.arrays[i];
            const uint64_t begin = first + array.offset / WORD;
            memset(shadow.array + begin, 1 << i, array.rows * array.row_length);
            for (uint32_t row = 0; row < array.rows; ++row) {
                memset(shadow.written + begin + row * array.row_length, 0, array.columns * WORD);
            }
        }
    }
}

}  // namespace

void forbid_arrays(const uint32_t* places, const uint8_t* arrays, uint32_t count) {
    if (!prepare_image()) return;
    for (uint32_t i = 0; i < count; ++i) {
        if (places[i] < checker.image.bytes) checker.foreign[places[i]] = arrays[i];
    }
}

bool check_launch_begins(const Launch& launch) {
    checker.launch = &launch;
    const uint64_t elements = static_cast<uint64_t>(extent_of(checker.watch.operands[C]));
    if (checker.launches == 0 && !checker.outputs.begin(elements, checker.watch.parts)) return false;
    ++checker.launches;
    checker.outputs.begin_launch();
    return prepare_image();
}

// Whether the call did all that it has to do to C and to its memory, told in `local.message` if not.
bool check_call_ends() {
    if (!(checker.watch.kinds & MEMORY)) return true;
    if (checker.wrong_release != nullptr || checker.allocation.writers != nullptr) {
        const bool wrong = checker.wrong_release != nullptr;
        checker.places[0] = checker.places[1] = wrong ? checker.released_at : checker.allocated_at;
        snprintf(local.message, sizeof local.message, "%s {here}",
                 wrong ? checker.wrong_release : "when the call ends, memory is not freed that it allocated");
        return false;
    }
    if (checker.launches == 0) return true;
    const Outputs& outputs = checker.outputs;
    const WatchedOperand& c = checker.watch.operands[C];
    for (int64_t line = 0; line < c.lines; ++line) {
        for (int64_t place = 0; place < c.width; ++place) {
            const uint64_t element = static_cast<uint64_t>(line * c.ld + place);
            const long long row = c.row_major ? line : place, column = c.row_major ? place : line;
            if ((checker.watch.parts == 0 || checker.watch.scaled) && !outputs.written[element]) {
                snprintf(local.message, sizeof local.message, "C[%lld, %lld] was not written", row, column);
                return false;
            }
            for (uint32_t part = 0; part < checker.watch.busy_parts; ++part) {
                if (outputs.has(element, part)) continue;
                snprintf(local.message, sizeof local.message, "part %u was not added to C[%lld, %lld]", part, row,
                         column);
                return false;
            }
        }
    }
    return true;
}

void check_block_begins(Worker& worker) {
    checker.worker = &worker;
    shadow.begin = reinterpret_cast<uintptr_t>(worker.shared.begin);
    const uint64_t bytes = static_cast<uint64_t>(worker.shared.end - worker.shared.begin);
    // Vectors of the last words are looked at as a whole.
    if (!shadow.reserve(bytes / WORD + 8)) {
        set_message(worker, "out of memory: no shadow for %llu bytes of shared memory",
                    static_cast<unsigned long long>(bytes));
        return;
    }
    memset(shadow.written, 0xff, shadow.capacity * sizeof(uint32_t));
    memset(shadow.read, 0, shadow.capacity * sizeof(uint32_t));
    memset(shadow.array, 0, shadow.capacity);
    for (uint32_t i = 0; i < checker.watch.variable_count; ++i) {
        const WatchedVariable& variable = checker.watch.variables[i];
        if (!is_live(variable)) continue;
        memset(shadow.written + variable.offset / WORD, 0, size_of(variable));
        if (holds_stages(variable)) lay_out_stages(variable);
    }
    shadow.start_clocks();
    shadow.bytes = bytes;
}

void check_block_ends() {
    shadow.bytes = 0;
    checker.worker = nullptr;
}

void check_switch(unsigned thread) { shadow.enter(thread); }

void check_barrier() {
    if (!shadow.pass_barrier()) stop(0, 0, "more than %u barriers", LAST_CLOCK);
}

void check_rendezvous(unsigned first, uint32_t mask) { shadow.meet(first, mask); }

void check_copy_issued(const void* shared, const void* global, unsigned bytes, unsigned zero_fill,
                       const void* code) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(shared);
    const uint64_t offset = address - shadow.begin;
    const uint32_t here = place_of(code);
    if (offset >= shadow.bytes) {
        report(MEMORY, here, here, "asynchronous copy {here} to %p, no shared memory", shared);
        return;
    }
    for (unsigned read = 0; read < bytes - zero_fill; read += WORD) {
        check_access(reinterpret_cast<uintptr_t>(global) + read, WORD, false, code);
    }
    for (unsigned i = 0; i < bytes / WORD; ++i) {
        const uint64_t word = offset / WORD + i;
        check_word(word, true, here);
        if (shadow.written[word] < PADDING) shadow.written[word] = IN_FLIGHT;
    }
}

// A library that is closed takes nothing along.
__attribute__((destructor)) static void release_checker() {
    checker.outputs.release();
    checker.allocation.release();
    free(checker.foreign);
    free(shadow.written);
}

const char* check_last_access() {
    checker.places[0] = checker.places[1] = checker.latest;
    return checker.latest != 0 ? "; last seen {here}" : "";
}

void check_vector(const void* to, const void* from, size_t bytes) {
    const uint32_t here = place_of(__builtin_return_address(0));
    const uintptr_t target = reinterpret_cast<uintptr_t>(to), origin = reinterpret_cast<uintptr_t>(from);
    const unsigned width = static_cast<unsigned>(bytes);
    if (origin % width != 0) report_misaligned(origin, width, false, here);
    if (target % width != 0) report_misaligned(target, width, true, here);
}

void check_atomic(const void* to, unsigned bytes, const void* code) {
    const uint32_t here = place_of(code);
    const uintptr_t address = reinterpret_cast<uintptr_t>(to);
    const WatchedOperand& c = checker.watch.operands[C];
    const uint64_t first = address - c.address;
    checker.latest = here;
    if (address % bytes != 0) report_misaligned(address, bytes, true, here);
    if (address < c.address || first + bytes > static_cast<uint64_t>(extent_of(c)) * WORD) {
        report(MEMORY, here, here, "addition outside C {here}, at address %#llx",
               static_cast<unsigned long long>(address));
        return;
    }
    for (unsigned word = 0; word < bytes / WORD; ++word) {
        check_addition(static_cast<int64_t>(first / WORD + word), here);
    }
}

bool check_allocated(const void* memory, uint64_t bytes, const void* code) {
    checker.allocated_at = place_of(code);
    return prepare_image() && checker.allocation.reserve(memory, bytes);
}

void check_released(const void* memory) {
    if (checker.allocation.address == reinterpret_cast<uintptr_t>(memory)) checker.allocation.release();
}

void check_wrong_release(const char* what, const void* code) {
    if (checker.wrong_release != nullptr || !prepare_image()) return;
    checker.wrong_release = what;
    checker.released_at = checker.places[0] = checker.places[1] = place_of(code);
    if (checker.watch.kinds & MEMORY) snprintf(local.message, sizeof local.message, "%s {here}", what);
}

void check_copy_landed(const void* shared, unsigned bytes) {
    const uint64_t offset = reinterpret_cast<uintptr_t>(shared) - shadow.begin;
    if (offset >= shadow.bytes) return;
    for (uint64_t word = offset / WORD; word < (offset + bytes) / WORD; ++word) {
        if (shadow.written[word] == IN_FLIGHT) shadow.written[word] = shadow.stamp;
    }
}

}  // namespace gemm_emu

#endif
