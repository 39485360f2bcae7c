// What the parts of the library share: the selected instruction set, memory, threads.
#pragma once

#include "core/problem.h"

namespace regard {

extern const Kernel* chosen;  // of the selected instruction set

// Write the names of the supported instruction sets, best first, separated by spaces.
void list_instruction_sets(char* names, int64_t size);
// Select an instruction set by name. Returns whether it is supported.
bool choose(const char* name);

// Memory aligned to 64 bytes; null if out of memory.
struct Memory {
    char* at = nullptr;
    explicit Memory(int64_t bytes) { take(bytes); }
    ~Memory();
    void take(int64_t bytes);
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
};

// Workspace of a call: a cached block of this thread, or a larger one.
struct Scratch {
    Memory larger;
    char* at;
    explicit Scratch(int64_t bytes);
};

Status find(const Find& p, int32_t backward);
Status nearest(const Nearest& p, int32_t backward);

// Run all phases of an attention, on at most p.threads threads. Returns false if out of memory.
bool run_on_threads(const Problem& p, bool backward);

}  // namespace regard
