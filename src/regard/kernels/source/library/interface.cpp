// The C functions that Python calls.
#include "library/export.h"
#include "library/library.h"

#include <cstdlib>
#include <initializer_list>

// Replaces libstdc++'s handler of uncaught exceptions. That handler would link in a demangler, which is larger than the
// training code of an instruction set.
#if defined(__GLIBCXX__)
namespace __gnu_cxx {
void __verbose_terminate_handler() { std::abort(); }
}  // namespace __gnu_cxx
#elif defined(_LIBCPP_VERSION)  // libc++ only lets the demangler be replaced
extern "C" char* __cxa_demangle(const char*, char*, size_t*, int*) { return nullptr; }
#endif

// Write the names of the supported instruction sets, best first, separated by spaces.
EXPORT void regard_instruction_sets(char* names, int64_t size) { regard::list_instruction_sets(names, size); }

// Select an instruction set by name. Returns whether it is supported.
EXPORT int32_t regard_choose(const char* name) { return regard::choose(name); }

namespace regard {

static bool is_known(int64_t value, int32_t count) { return value >= 0 && value < count; }

// Whether all enumerations of a problem have known values.
static bool is_known(const Problem& p) {
    for (int32_t type : {p.compute, p.queries_type, p.keys_type, p.values_type, p.bias_type})
        if (!is_known(type, COUNT_OF_Type)) return false;
    for (int64_t s = 0; s < p.nodes; s++)
        if (!is_known(p.program[s].kind, COUNT_OF_Step)) return false;
    return is_known(p.score, COUNT_OF_Score) && is_known(p.bias, COUNT_OF_Bias);
}

static Status run(const Problem& p, int32_t backward) {
    if (!is_known(p)) return UNKNOWN_CODE;
    return run_on_threads(p, backward) ? DONE : NO_MEMORY;
}

// Whether all elements of some matrices are finite.
template <class T>
static bool finite(const Strided& x, int64_t matrices, int64_t rows, int64_t columns) {
    int wrong = 0;  // not a sum of floats, whose order would keep the compiler from vectors
    for (int64_t i = 0; i < matrices; i++)
        for (int64_t r = 0; r < rows; r++) {
            const T* at = reinterpret_cast<const T*>(x.start + i * x.step + r * x.row);
            for (int64_t c = 0; c < columns; c++) wrong |= !(at[c] * 0 == 0);
        }
    return !wrong;
}

static Status dense(const Dense& x, int32_t backward) {
    const int64_t groups = x.items / x.group;
    const Node band = {BAND, x.low, x.high, nullptr, nullptr, 0, 0};
    Problem p = {};
    p.program = &band, p.nodes = x.nodes;
    p.items = x.items, p.n = x.n, p.m = x.m, p.d = x.d, p.e = x.e, p.groups = groups;
    p.scale = x.scale, p.context = x.context, p.threads = x.threads, p.to_key = x.m;
    p.queries_type = p.keys_type = p.values_type = int32_t(x.type), p.compute = x.type == FLOAT64 ? FLOAT64 : FLOAT32;
    p.queries = {x.queries.start, x.queries.step, nullptr, x.queries.row};
    p.keys = {x.keys.start, x.keys.step, nullptr, x.keys.row};
    p.values = {x.values.start, x.values.step, nullptr, x.values.row};
    Memory index_memory(x.group > 1 ? (groups + 1 + 2 * x.items) * int64_t(sizeof(int64_t)) : 0);
    if (x.group > 1) {
        auto* firsts = reinterpret_cast<int64_t*>(index_memory.at);
        if (!firsts) return NO_MEMORY;
        int64_t *keys = firsts + groups + 1, *values = keys + x.items;
        for (int64_t g = 0; g <= groups; g++) firsts[g] = g * x.group;
        for (int64_t i = 0; i < x.items; i++) {
            keys[i] = x.keys.start + i / x.group * x.keys.step;
            values[i] = x.values.start + i / x.group * x.values.step;
        }
        p.group = firsts, p.keys.starts = keys, p.values.starts = values;
    }
    p.statistic = x.statistic, p.stop = x.stop;
    if (!backward) return run(p, 0);
    const bool all_finite =
        x.type == FLOAT64 ? finite<double>(x.queries, x.items, x.n, x.d) && finite<double>(x.keys, groups, x.m, x.d)
                          : finite<float>(x.queries, x.items, x.n, x.d) && finite<float>(x.keys, groups, x.m, x.d);
    if (!all_finite) return NOT_FINITE;
    const int64_t row = x.e * (x.type == FLOAT64 ? 8 : 4);
    p.parts = 1, p.dcontext = {x.dcontext, x.n * row, nullptr, row};
    // products have no learned parameters
    p.dqueries = p.dparameters = x.dqueries, p.dkeys = x.dkeys, p.dvalues = x.dvalues;
    return run(p, 1);
}

}  // namespace regard

// Whether the instruction set has the functions of training.
EXPORT int32_t regard_trains() { return regard::chosen->training.recur != nullptr; }

// Bytes of Recurrence::workspace.
EXPORT int64_t regard_recurrence_bytes(const regard::Recurrence* p) {
    return regard::chosen->training.recurrence_bytes(*p);
}

EXPORT void regard_exp2(const void* x, void* y, int64_t count, int32_t type) {
    regard::chosen->exp2(x, y, count, type);
}

#define FUNCTION(name, Struct)                                                                                         \
    EXPORT int32_t regard_##name(const regard::Struct* p, int32_t backward) { return regard::name(*p, backward); }
#define TRAINING(name, Struct, bytes)                                                                                  \
    EXPORT int32_t regard_##name(const regard::Struct* p, int32_t backward) {                                          \
        using namespace regard;                                                                                        \
        Scratch scratch(bytes);                                                                                        \
        if (!scratch.at) return NO_MEMORY;                                                                             \
        chosen->training.name(*p, backward, scratch.at);                                                               \
        return DONE;                                                                                                   \
    }
#include "core/interface.inc"
