// The C functions that Python calls.
#include "library/library.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Replaces libstdc++'s handler of uncaught exceptions. That handler would link in a demangler, which is larger than the
// training code of an instruction set.
#if defined(__GLIBCXX__)
namespace __gnu_cxx {
void __verbose_terminate_handler() { std::abort(); }
}  // namespace __gnu_cxx
#elif defined(_LIBCPP_VERSION)  // libc++ only lets the demangler be replaced
extern "C" char* __cxa_demangle(const char*, char*, size_t*, int*) { return nullptr; }
#endif

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

// Write the names of the supported instruction sets, best first, separated by spaces.
EXPORT void regard_instruction_sets(char* names, int64_t size) { regard::list_instruction_sets(names, size); }

// Select an instruction set by name. Returns whether it is supported.
EXPORT int32_t regard_choose(const char* name) { return regard::choose(name); }

// Returns 0, or 1 where memory ran out.
EXPORT int32_t regard_run(const regard::Problem* p, int32_t backward) { return !regard::run(*p, backward); }

// Scaled dot product attention with a sliding window as its only option; `group` consecutive items share keys and
// values. All fields are packed as numbers (kernels/fast_path.py): filling a ctypes struct takes longer than a small
// attention.
struct Dense {
    struct Rows {
        int64_t start, step, row;
    } queries, keys, values;
    int64_t items, n, m, d, e, group, type;
    void* context;
    int64_t threads, nodes, low, high;  // 1 node if there is a band
    void* statistic;  // or null
    int64_t dcontext;  // backward, with 1 part
    void *dqueries, *dkeys, *dvalues;  // backward; null: forward
    double scale;
    const int32_t* stop;  // as in Problem
};

// Whether all elements of some matrices are finite.
template <class T>
static bool finite(const Dense::Rows& x, int64_t matrices, int64_t rows, int64_t columns) {
    T witness = 0;
    for (int64_t i = 0; i < matrices; i++)
        for (int64_t r = 0; r < rows; r++) {
            const T* at = reinterpret_cast<const T*>(x.start + i * x.step + r * x.row);
            for (int64_t c = 0; c < columns; c++) witness += at[c] * 0;
        }
    return witness == 0;
}

// Returns 0, 1 if out of memory, or 2 if queries or keys are not finite, which the backward pass does not support here.
EXPORT int32_t regard_dense(const Dense* x) {
    using namespace regard;
    const int64_t groups = x->items / x->group;
    const Node band = {BAND, x->low, x->high, nullptr, nullptr, 0, 0};
    Problem p = {};
    p.program = &band, p.nodes = x->nodes;
    p.items = x->items, p.n = x->n, p.m = x->m, p.d = x->d, p.e = x->e, p.groups = groups;
    p.scale = x->scale, p.context = x->context, p.threads = x->threads, p.to_key = x->m;
    p.queries_type = p.keys_type = p.values_type = int32_t(x->type), p.compute = x->type == FLOAT64 ? FLOAT64 : FLOAT32;
    p.queries = {x->queries.start, x->queries.step, nullptr, x->queries.row};
    p.keys = {x->keys.start, x->keys.step, nullptr, x->keys.row};
    p.values = {x->values.start, x->values.step, nullptr, x->values.row};
    Memory index_memory(x->group > 1 ? (groups + 1 + 2 * x->items) * int64_t(sizeof(int64_t)) : 0);
    if (x->group > 1) {
        auto* firsts = reinterpret_cast<int64_t*>(index_memory.at);
        if (!firsts) return 1;
        int64_t *keys = firsts + groups + 1, *values = keys + x->items;
        for (int64_t g = 0; g <= groups; g++) firsts[g] = g * x->group;
        for (int64_t i = 0; i < x->items; i++) {
            keys[i] = x->keys.start + i / x->group * x->keys.step;
            values[i] = x->values.start + i / x->group * x->values.step;
        }
        p.group = firsts, p.keys.starts = keys, p.values.starts = values;
    }
    p.statistic = x->statistic, p.stop = x->stop;
    if (!x->dqueries) return regard_run(&p, 0);
    const bool all_finite =
        x->type == FLOAT64
            ? finite<double>(x->queries, x->items, x->n, x->d) && finite<double>(x->keys, groups, x->m, x->d)
            : finite<float>(x->queries, x->items, x->n, x->d) && finite<float>(x->keys, groups, x->m, x->d);
    if (!all_finite) return 2;
    const int64_t row = x->e * (x->type == FLOAT64 ? 8 : 4);
    p.parts = 1, p.dcontext = {x->dcontext, x->n * row, nullptr, row};
    // products have no learned parameters
    p.dqueries = p.dparameters = x->dqueries, p.dkeys = x->dkeys, p.dvalues = x->dvalues;
    return regard_run(&p, 1);
}

// Whether the instruction set has the functions below.
EXPORT int32_t regard_trains() { return regard::chosen->training.recur != nullptr; }

// Bytes of Recurrence::workspace.
EXPORT int64_t regard_recurrence_bytes(const regard::Recurrence* p) { return regard::chosen->training.scratch(*p); }

// Returns 0, or 1 where memory ran out.
EXPORT int32_t regard_recur(const regard::Recurrence* p, int32_t backward) {
    if (p->workspace) return regard::chosen->training.recur(*p, backward, p->workspace), 0;
    regard::Memory scratch(regard::chosen->training.scratch(*p));
    if (!scratch.at) return 1;
    regard::chosen->training.recur(*p, backward, scratch.at);
    return 0;
}

// Returns 0, or 1 where memory ran out.
EXPORT int32_t regard_multiply(const regard::Product* p) {
    regard::Scratch scratch(regard::PRODUCT_BYTES);
    if (scratch.at) regard::chosen->training.multiply(*p, scratch.at);
    return !scratch.at;
}

// The same.
EXPORT int32_t regard_predict(const regard::Prediction* p, int32_t backward) {
    regard::Scratch scratch(regard::PREDICTION_BYTES);
    if (scratch.at) regard::chosen->training.predict(*p, backward, scratch.at);
    return !scratch.at;
}

// The same.
EXPORT int32_t regard_top_k(const regard::TopK* p) {
    regard::Scratch scratch(regard::PREDICTION_BYTES);
    if (scratch.at) regard::chosen->training.top_k(*p, scratch.at);
    return !scratch.at;
}

EXPORT int64_t regard_panel_columns() { return regard::PANEL_COLUMNS; }
EXPORT int64_t regard_word_block() { return regard::WORD_BLOCK; }

EXPORT void regard_cross_entropy(const regard::Softmax* p) { regard::chosen->training.cross_entropy(*p); }
EXPORT void regard_add_rows(const regard::Rows* p) { regard::chosen->training.add_rows(*p); }
EXPORT void regard_adam(const regard::Adam* p) { regard::chosen->training.adam(*p); }

EXPORT void regard_norm(const regard::Norm* p, int32_t backward) { regard::chosen->training.norm(*p, backward); }
EXPORT void regard_drop(const regard::Drop* p) { regard::chosen->training.drop(*p); }
EXPORT void regard_relu_backward(const regard::Relu* p) { regard::chosen->training.relu_backward(*p); }

EXPORT void regard_find(const regard::Find* p) { regard::find(*p); }
EXPORT void regard_nearest(const regard::Nearest* p) { regard::nearest(*p); }

EXPORT void regard_exp2(const void* x, void* y, int64_t count, int32_t type) {
    regard::chosen->exp2(x, y, count, type);
}

// The layout of the structs that Python mirrors, so that it can check it: "field offset size" for each field, and "*"
// for the struct itself. Empty for an unknown name.
struct Layout {
    const char* name;
    void (*write)(char* text, int64_t size);
};
__attribute__((noinline)) static void add(char* text, int64_t size, const char* field, size_t at, size_t bytes) {
    const size_t length = strlen(text);
    snprintf(text + length, size_t(size) - length, "%s %d %d ", field, int(at), int(bytes));
}
#define F(field) add(text, size, #field, offsetof(S, field), sizeof(S::field));
#define S(name, fields)                                                                                                \
    {#name, [](char* text, int64_t size) {                                                                             \
         using S = name;                                                                                               \
         add(text, size, "*", 0, sizeof(S));                                                                           \
         fields                                                                                                        \
     }},
static const Layout* layouts() {
    using namespace regard;
    static const Layout table[] = {
        S(Matrices, F(start) F(step) F(starts) F(row)) S(Node, F(kind) F(low) F(high) F(left) F(right) F(row) F(column))
            S(Problem, F(items) F(n) F(m) F(d) F(e) F(groups) F(group) F(compute) F(queries_type) F(keys_type)
                           F(values_type) F(score) F(bias) F(bias_type) F(merges_parts) F(queries) F(keys) F(values)
                               F(scale) F(softcap) F(vector) F(width) F(program) F(nodes) F(bias_address) F(bias_row)
                                   F(bias_column) F(context) F(statistic) F(parts) F(tasks_span_groups) F(dcontext)
                                       F(dqueries) F(dkeys) F(dvalues) F(dbias) F(dbias_row) F(dbias_column)
                                           F(dparameters) F(threads) F(stop) F(from_key) F(to_key) F(taints))
                S(Dense,
                  F(queries) F(keys) F(values) F(items) F(n) F(m) F(d) F(e) F(group) F(type) F(context) F(threads)
                      F(nodes) F(low) F(high) F(statistic) F(dcontext) F(dqueries) F(dkeys) F(dvalues) F(scale) F(stop))
                    S(Recurrence,
                      F(steps) F(batch) F(size) F(reversed) F(input_row) F(state_row) F(dinput_row) F(dstate_row)
                          F(lengths) F(inputs) F(state_weight) F(state_bias) F(start) F(states) F(gates) F(positions)
                              F(hidden) F(context) F(valid_positions) F(keys) F(values) F(query_weight) F(vector)
                                  F(context_weight) F(queries) F(weights) F(contexts) F(second_weight) F(second_bias)
                                      F(attending_states) F(second_gates) F(sentences) F(sentence_of_row) F(workspace)
                                          F(workspace_filled) F(dstates) F(dcontexts) F(dweights) F(dinputs) F(dhidden)
                                              F(dstart) F(dsecond) F(dsecond_hidden) F(dqueries) F(dkeys) F(dvalues)
                                                  F(dvector) F(stop))
                        S(Product, F(rows) F(depth) F(columns) F(a_row) F(a_column) F(b_row) F(b_column) F(out_row) F(a)
                                       F(b) F(bias) F(out) F(column_sums) F(accumulate) F(activation)
                                           F(stop)) S(Softmax, F(rows) F(words) F(logits) F(bias) F(dbias) F(targets)
                                                                   F(statistics) F(scale) F(smoothing) F(target_weight))
                            S(Prediction, F(rows) F(words) F(size) F(readout) F(weight) F(bias) F(targets) F(statistics)
                                              F(dreadout) F(dweight) F(dbias) F(saved_logits) F(scale) F(smoothing)
                                                  F(target_weight) F(stop))
                                S(TopK, F(rows) F(words) F(size) F(count) F(first) F(logits) F(readout) F(weight)
                                            F(bias) F(values) F(statistics) F(indices))
                                    S(Adam, F(count) F(parameters) F(mean) F(square) F(gradient) F(keep_mean)
                                                F(add_mean) F(keep_square) F(add_square) F(epsilon)
                                                    F(rate)) S(Rows, F(rows) F(size) F(indices) F(updates) F(table))
                                        S(Norm, F(rows) F(size) F(x) F(gain) F(shift) F(y) F(moments) F(dy) F(dresidual)
                                                    F(dx) F(dgain) F(dshift) F(epsilon))
                                            S(Drop, F(count) F(random_bits) F(x) F(y) F(threshold)
                                                        F(scale)) S(Relu, F(count) F(y) F(gradient))
                                                S(Nearest, F(rows) F(count) F(sequences) F(size) F(width) F(text)
                                                               F(starts) F(row) F(grams) F(rarest) F(first) F(stop)
                                                                   F(lengths) F(weights) F(entries) F(owners) F(scales)
                                                                       F(sums) F(touched) F(excluded) F(best))
                                                    S(Find, F(size) F(places) F(longest) F(width) F(text) F(entries)
                                                                F(tokens) F(order) F(first) F(stop)){nullptr, nullptr}};
    return table;
}
#undef F
#undef S
EXPORT void regard_layout(const char* name, char* text, int64_t size) {
    text[0] = 0;
    for (const Layout* x = layouts(); x->name; x++)
        if (!strcmp(x->name, name)) x->write(text, size);
}
