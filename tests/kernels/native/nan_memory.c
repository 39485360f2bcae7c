// For LD_PRELOAD: what malloc returns is full of NaN, also behind an array without elements; large blocks come as zeros
// from the system. No result may depend on memory that was never written.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

void* malloc(size_t size) {
    static void* (*real)(size_t);
    if (!real) real = dlsym(RTLD_NEXT, "malloc");  // once: dlsym frees the text of the last dlerror
    void* memory = real(size);
    if (memory && size <= 1 << 16) memset(memory, 0xff, malloc_usable_size(memory));
    return memory;
}
