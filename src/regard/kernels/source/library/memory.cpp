// Aligned memory, and the workspace that each thread caches across calls.
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

constexpr int64_t CACHED_BYTES = PREDICTION_BYTES;  // bytes cached per thread; untouched pages take no memory

Scratch::Scratch(int64_t bytes) : larger(bytes > CACHED_BYTES ? bytes : 0), at(larger.at) {
    static thread_local Memory cached(CACHED_BYTES);  // allocation would cost a small call more than its work
    if (bytes > CACHED_BYTES) return;
    if (!cached.at) cached.take(CACHED_BYTES);  // the first allocation failed
    at = cached.at;
}

}  // namespace regard
