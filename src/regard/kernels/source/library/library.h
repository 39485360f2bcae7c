// What the parts of the library share: the instruction set in use, memory, threads.
#pragma once

#include "core/problem.h"

namespace regard {

extern const Kernel* chosen;  // of the instruction set in use

// Write the names of the instruction sets that this machine has, the best first, with spaces between them.
void list_instruction_sets(char* names, int64_t size);
// Use the one of this name from now on. Returns whether there is one.
bool choose(const char* name);

// Memory on a boundary of 64 bytes; null if there is none.
struct Memory {
    char* at = nullptr;
    explicit Memory(int64_t bytes) { take(bytes); }
    ~Memory();
    void take(int64_t bytes);
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
};

// Memory for a call: this thread's own, or more.
struct Scratch {
    Memory larger;
    char* at;
    explicit Scratch(int64_t bytes);
};

// Run all phases of an attention, on as many threads as it asks for. Returns false where memory ran out.
bool run(const Problem& p, bool backward);

}  // namespace regard
