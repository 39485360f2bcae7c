// Aligned memory, and what a thread keeps of it from call to call.
#include "library/library.h"

#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#endif

namespace regard {

void Memory::take(int64_t bytes) {
    if (bytes <= 0) return;
    bytes = (bytes + 63) / 64 * 64;
#if defined(_WIN32)
    at = static_cast<char*>(_aligned_malloc(size_t(bytes), 64));
#else
    at = static_cast<char*>(std::aligned_alloc(64, size_t(bytes)));
#endif
}

Memory::~Memory() {
#if defined(_WIN32)
    _aligned_free(at);
#else
    std::free(at);
#endif
}

constexpr int64_t KEPT = PREDICTION_ROOM;  // bytes that a thread keeps; only what it works in takes memory

Scratch::Scratch(int64_t bytes) : larger(bytes > KEPT ? bytes : 0), at(larger.at) {
    static thread_local Memory kept(KEPT);  // asking for it anew would cost a small call more than its work
    if (bytes > KEPT) return;
    if (!kept.at) kept.take(KEPT);  // there was none at first
    at = kept.at;
}

}  // namespace regard
