// Turns a kernel's invalid access into an error of the launch instead of the end of the process.

#pragma once

#include <signal.h>

namespace gemm_emu {

// While one exists, faults of threads that run a block end that block; other threads' go where they went.
// Nothing changes when `wanted` is false, as in a program that has handlers of its own.
class FaultHandlers {
public:
    explicit FaultHandlers(bool wanted);
    ~FaultHandlers();
    FaultHandlers(const FaultHandlers&) = delete;
    FaultHandlers& operator=(const FaultHandlers&) = delete;

private:
    bool wanted_;
};

// A stack on which the calling thread can handle the overflow of another.
class SignalStack {
public:
    explicit SignalStack(bool wanted);
    ~SignalStack();
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

private:
    stack_t previous_;
    void* memory_;
};

}  // namespace gemm_emu
