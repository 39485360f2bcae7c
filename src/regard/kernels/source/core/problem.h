// The structs, enumerations and constants of the interface to Python (interface.inc), and the functions that each
// instruction set provides.
#pragma once

#include <cstdint>

namespace regard {

#define VALUES(name, ...)                                                                                              \
    enum name : int32_t { __VA_ARGS__ };                                                                               \
    constexpr int32_t COUNT_OF_##name = int32_t(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t));
#define CONSTANT(name, number) constexpr int name = number;
#define STRUCT(name) struct name {
#define FIELD(type, ...) Of<type> __VA_ARGS__;
#define METHOD(...) __VA_ARGS__
#define END                                                                                                            \
    }                                                                                                                  \
    ;
template <class T>
using Of = T;  // so that one declaration has several pointers
#include "core/interface.inc"

// Whether another thread has cancelled the call. The output of a cancelled call is unspecified.
static inline bool stopped(const int32_t* stop) { return stop && __atomic_load_n(stop, __ATOMIC_RELAXED); }

// Bytes of workspace for a product and for an output layer.
constexpr int64_t PRODUCT_BYTES = 800 << 10, PREDICTION_BYTES = (608 << 10) + PRODUCT_BYTES;

// Functions for training. Null for baseline instruction sets, where NumPy does it.
struct Training {
    int64_t (*recurrence_bytes)(const Recurrence&);  // bytes of a workspace
#define TRAINING(name, Struct, bytes) void (*name)(const Struct&, bool backward, char* scratch);
#include "core/interface.inc"
};

constexpr int KEY_BLOCK = 128;  // keys of a block, such that a block of scores stays in the L1 cache
enum Visibility { NO_PAIR, SOME_PAIRS, ALL_PAIRS };
// The mask of a tile of queries and a block of keys: one bit per query in one word per key. Only keys from `first` to
// `last` - 1 are visible to any query. With ALL_PAIRS the words are not set.
using MaskWords = uint64_t[KEY_BLOCK];
struct BlockMask {
    MaskWords words;
    int64_t first, last;
};

extern const bool made_by_amd;

// Functions that an instruction set provides. A pass consists of phases, a phase of tasks that any thread may run.
struct Kernel {
    const char* name;
    int64_t (*shared)(const Problem&, bool backward);  // bytes shared by all threads
    int64_t (*scratch)(const Problem&, bool backward);  // bytes per thread
    int64_t (*tasks)(const Problem&, bool backward, int phase);  // 0: nothing to do in this phase
    void (*run)(const Problem&, bool backward, int phase, int64_t task, char* shared, char* scratch);
    void (*exp2)(const void* x, void* y, int64_t count, int32_t type);  // for tests: count is a multiple of 16
    Training training;
    // Masks of blocks (mask.h).
    Visibility (*classify_block)(const Problem&, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys);
    Visibility (*evaluate_mask)(const Problem&, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys,
                                BlockMask&);
};
constexpr int PHASES = 2;

}  // namespace regard
