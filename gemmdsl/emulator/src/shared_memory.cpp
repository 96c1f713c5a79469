#include "shared_memory.h"

#include <link.h>
#include <pthread.h>

#include <cstring>

// Defined beside the kernel by the builder, since only there the array's name is known.
extern "C" int64_t gemm_emu_dynamic_shared_bytes __attribute__((visibility("hidden")));

namespace gemm_emu {

namespace {

bool holds_code(const dl_phdr_info& info, uintptr_t address) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
        const auto& header = info.dlpi_phdr[i];
        const uintptr_t begin = info.dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD && address >= begin && address - begin < header.p_memsz) return true;
    }
    return false;
}

int find_segment(dl_phdr_info* info, size_t, void* result) {
    if (!holds_code(*info, reinterpret_cast<uintptr_t>(&find_segment))) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_TLS || info->dlpi_tls_data == nullptr) continue;
        char* begin = static_cast<char*>(info->dlpi_tls_data);
        // Shared variables have no initial value: they lie behind the initialised part.
        *static_cast<SharedMemory*>(result) = {begin + header.p_filesz, begin + header.p_memsz};
    }
    return 1;
}

int find_own_image(dl_phdr_info* info, size_t, void* result) {
    if (!holds_code(*info, reinterpret_cast<uintptr_t>(&find_own_image))) return 0;
    uintptr_t end = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type == PT_LOAD && header.p_vaddr + header.p_memsz > end) end = header.p_vaddr + header.p_memsz;
    }
    *static_cast<Image*>(result) = {info->dlpi_addr, end};
    return 1;
}

// Kernels whose limit has been raised; a library has a handful.
struct Allowance {
    const void* kernel;
    int64_t bytes;
};

constexpr int MAX_KERNELS = 64;
Allowance allowances[MAX_KERNELS];
int allowance_count = 0;
pthread_mutex_t allowance_mutex = PTHREAD_MUTEX_INITIALIZER;

}  // namespace

Image find_image() {
    Image image{0, 0};
    dl_iterate_phdr(find_own_image, &image);
    return image;
}

SharedMemory find_shared_memory() {
    char* own = reinterpret_cast<char*>(&local);
    *const_cast<volatile char*>(own) = *own;  // a thread's segment exists once it has been used
    SharedMemory shared{nullptr, nullptr};
    dl_iterate_phdr(find_segment, &shared);
    return shared;
}

void poison(const SharedMemory& shared) {
    constexpr int NOT_A_NUMBER = 0xff;
    if (shared.begin == nullptr) return;
    char* own = reinterpret_cast<char*>(&local);
    memset(shared.begin, NOT_A_NUMBER, static_cast<size_t>(own - shared.begin));
    own += sizeof(Local);
    memset(own, NOT_A_NUMBER, static_cast<size_t>(shared.end - own));
}

int64_t dynamic_shared_capacity() { return gemm_emu_dynamic_shared_bytes; }

int64_t raised_dynamic_shared(const void* kernel) {
    int64_t bytes = -1;
    pthread_mutex_lock(&allowance_mutex);
    for (int i = 0; i < allowance_count; ++i) {
        if (allowances[i].kernel == kernel) bytes = allowances[i].bytes;
    }
    pthread_mutex_unlock(&allowance_mutex);
    return bytes;
}

int allow_dynamic_shared(const void* kernel, int64_t bytes) {
    constexpr int INVALID_VALUE = 1;
    if (bytes < 0) return INVALID_VALUE;
    pthread_mutex_lock(&allowance_mutex);
    int i = 0;
    while (i < allowance_count && allowances[i].kernel != kernel) ++i;
    const bool room = i < MAX_KERNELS;
    if (room) {
        allowances[i] = {kernel, bytes};
        if (i == allowance_count) ++allowance_count;
    }
    pthread_mutex_unlock(&allowance_mutex);
    return room ? 0 : INVALID_VALUE;
}

}  // namespace gemm_emu
