// Repeats the calls that record.py wrote down, with the library of this system, and compares all memory afterwards. Calls for
// instruction sets that this machine lacks are skipped.
//
//     replay LIBRARY FILE...
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#define OPEN(path) LoadLibraryA(path)
#define FIND(library, name) GetProcAddress(library, name)
#else
#include <dlfcn.h>
#define OPEN(path) dlopen(path, RTLD_NOW)
#define FIND(library, name) dlsym(library, name)
#endif

enum { BLOCKS = 64, LINE = 64 };

struct Header {
    char function[32], instruction_set[32];
    int64_t returned, blocks, pointers;  // returned: 0 if that doesn't matter
};
struct Block {  // followed by its bytes before and after the call, each filled to a multiple of 8
    int64_t address, size;
};
struct Pointer {
    int64_t block, word, target, offset;
};

static void* library;
static int passed, failed, skipped;

static char* content(const char* path, int64_t* size) {
    FILE* file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return NULL;
    *size = ftell(file), rewind(file);
    char* bytes = malloc(*size + 1);
    if (bytes && fread(bytes, 1, *size, file) != (size_t)*size) bytes = NULL;
    fclose(file);
    return bytes;
}

// A copy whose address has the same remainder: alignment is part of the interface.
static int64_t* copied(const struct Block* block) {
    char* memory = calloc(1, block->size + 2 * LINE);
    if (!memory) abort();
    return memcpy(memory + (uint64_t)(block->address - (intptr_t)memory) % LINE, block + 1, block->size);
}

// Whether blocks are equal, but for the last place of doubles: log2 and pow are the C library's.
static int equal(const int64_t* left, const int64_t* right, int64_t bytes) {
    for (int64_t i = 0; 8 * i < bytes; i++)
        if ((uint64_t)left[i] - (uint64_t)right[i] + 1 > 2) return 0;
    return 1;
}

// Repeats one call, and returns the end of its description.
static char* repeat(char* at) {
    const struct Header* header = (void*)at;
    at += sizeof *header;
    if (header->blocks > BLOCKS) abort();
    int64_t *now[BLOCKS], *after[BLOCKS], sizes[BLOCKS];
    for (int b = 0; b < header->blocks; b++) {
        const struct Block* block = (void*)at;
        const int64_t filled = (block->size + 7) / 8 * 8;
        now[b] = copied(block), sizes[b] = block->size;
        after[b] = (void*)(at + sizeof *block + filled);
        at += sizeof *block + 2 * filled;
    }
    const struct Pointer* pointer = (void*)at;
    at += header->pointers * sizeof *pointer;
    for (; (char*)pointer < at; pointer++)
        now[pointer->block][pointer->word] = after[pointer->block][pointer->word] =
            (intptr_t)now[pointer->target] + pointer->offset;

    int32_t (*choose)(const char*) = (void*)FIND(library, "regard_choose");
    int64_t (*function)(int64_t, int64_t, int64_t, int64_t) = (void*)FIND(library, header->function);
    if (!choose(header->instruction_set)) return skipped++, at;
    const int64_t* arguments = now[0];
    const int64_t returned = function(arguments[0], arguments[1], arguments[2], arguments[3]);
    int wrong = header->returned && returned != header->returned;
    for (int b = 0; b < header->blocks; b++) wrong |= !equal(now[b], after[b], sizes[b]);
    if (wrong) printf("%s, %s: another result\n", header->function, header->instruction_set);
    return failed += wrong, passed += !wrong, at;  // the copies are left to the end of the process
}

int main(int count, char** paths) {
    library = count > 2 ? OPEN(paths[1]) : NULL;
    if (!library) return fprintf(stderr, "usage: replay LIBRARY FILE...\n"), 2;
    for (int i = 2; i < count; i++) {
        int64_t size;
        char* at = content(paths[i], &size);
        if (!at) return fprintf(stderr, "%s can't be read\n", paths[i]), 2;
        for (const char* end = at + size; at < end;) at = repeat(at);
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || !passed;
}
