// Repeats the calls that record.py wrote down, with the library of this system, and compares all memory afterwards: equal
// to the bit. Calls for instruction sets that this machine lacks are counted.
//
//     replay LIBRARY FILE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#define load(path) LoadLibraryA(path)
#define find(library, name) GetProcAddress(library, name)
#else
#include <dlfcn.h>
#define load(path) dlopen(path, RTLD_NOW)
#define find(library, name) dlsym(library, name)
#endif

enum { BLOCKS = 64, LINE = 64 };

struct Header {
    char function[32], instruction_set[32];
    int64_t returned, blocks, pointers;  // returned: 0 if that doesn't matter
};
struct Block {
    int64_t address, size;
};
struct Pointer {
    int64_t block, word, target, offset;
};

static void* file_content(const char* path, int64_t* size) {
    FILE* file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return NULL;
    *size = ftell(file), rewind(file);
    void* content = malloc(*size);
    return content && fread(content, 1, *size, file) == (size_t)*size ? content : NULL;
}

// A copy at an address that has the same remainder, as alignment is part of the interface.
static int64_t* copied(const struct Block* block, const void* content) {
    char* memory = malloc(block->size + 2 * LINE);
    char* at = memory + (uint64_t)(block->address - (intptr_t)memory) % LINE;
    return memcpy(at, content, block->size);
}

// The place of the first byte that differs, or -1.
static int64_t difference(const void* left, const void* right, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        if (((const char*)left)[i] != ((const char*)right)[i]) return i;
    return -1;
}

int main(int count, char** arguments) {
    int64_t size = 0, passed = 0, failed = 0, skipped = 0;
    void* library = count == 3 ? load(arguments[1]) : NULL;
    char* at = count == 3 ? file_content(arguments[2], &size) : NULL;
    if (!library || !at) return fprintf(stderr, "usage: replay LIBRARY FILE\n"), 2;
    int32_t (*choose)(const char*) = (void*)find(library, "regard_choose");
    for (const char* end = at + size; at < end;) {
        const struct Header* header = (void*)at;
        at += sizeof *header;
        int64_t *now[BLOCKS], *after[BLOCKS], sizes[BLOCKS];
        for (int64_t b = 0; b < header->blocks; b++) {
            const struct Block* block = (void*)at;
            const int64_t padded = (block->size + 7) / 8 * 8;
            at += sizeof *block;
            now[b] = copied(block, at), after[b] = (void*)(at + padded), sizes[b] = block->size;
            at += 2 * padded;
        }
        const struct Pointer* pointers = (void*)at;
        at += header->pointers * sizeof *pointers;
        for (const struct Pointer* p = pointers; p < pointers + header->pointers; p++) {
            int64_t* word = (void*)((char*)now[p->block] + p->word * 8);
            *word = after[p->block][p->word] = (intptr_t)now[p->target] + p->offset;
        }
        if (!choose(header->instruction_set)) {
            skipped++;
            continue;
        }
        int64_t (*function)(int64_t, int64_t, int64_t, int64_t) = (void*)find(library, header->function);
        const int64_t returned = function(now[0][0], now[0][1], now[0][2], now[0][3]);
        int wrong = header->returned && returned != header->returned;
        for (int64_t b = 0; b < header->blocks && !wrong; b++) {
            const int64_t place = difference(now[b], after[b], sizes[b]);
            wrong = place >= 0;
            if (wrong)
                printf("%s, %s: byte %d of block %d differs\n", header->function, header->instruction_set, (int)place, (int)b);
        }
        failed += wrong, passed += !wrong;
    }
    printf("%d passed, %d failed, %d skipped\n", (int)passed, (int)failed, (int)skipped);
    return failed || !passed;
}
