// The part of the CUDA runtime that launchers and the stand-alone programs call from the host, for a CPU.
//
// Device memory is the host's, and everything is done when a call returns.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorLaunchFailure = 719,
};

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};

typedef struct CUstream_st* cudaStream_t;

struct CUevent_st {
    timespec time;
};
typedef CUevent_st* cudaEvent_t;

// Launches run to their end and return their own status, so nothing is left to be reported later.
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

inline const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
    }
    return "unrecognized error code";
}

// Aligned as a GPU's memory is.
inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
    constexpr size_t ALIGNMENT = 256;
    return posix_memalign(memory, ALIGNMENT, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <typename T>
inline cudaError_t cudaMalloc(T** memory, size_t bytes) {
    return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
inline cudaError_t cudaFree(void* memory) {
    free(memory);
    return cudaSuccess;
}

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    if (bytes > 0) memmove(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    if (bytes > 0) memset(to, value, bytes);
    return cudaSuccess;
}

inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = static_cast<cudaEvent_t>(calloc(1, sizeof(CUevent_st)));
    return *event != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
    return clock_gettime(CLOCK_MONOTONIC, &event->time) == 0 ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
    *milliseconds = static_cast<float>(1e3 * static_cast<double>(stop->time.tv_sec - start->time.tv_sec) +
                                       1e-6 * static_cast<double>(stop->time.tv_nsec - start->time.tv_nsec));
    return cudaSuccess;
}
