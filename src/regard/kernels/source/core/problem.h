// The arguments of one attention call (kernels/problem.py mirrors the structs), and the functions that each instruction
// set provides. Letters: n queries, m keys, d size of queries and keys, e size of values; `items` independent n x m
// problems.
#pragma once

#include <cstdint>

namespace regard {

enum Type : int32_t { FLOAT32, FLOAT64, FLOAT16, BFLOAT16 };
enum Score : int32_t { PRODUCTS, PERCEPTRON, DISTANCES };
enum Kind : int32_t { BAND, KEYS, QUERIES, DOCUMENTS, DENSE, BOTH, NOT };
enum Bias : int32_t { NO_BIAS, ARRAY_BIAS, DISTANCE_BIAS };

// One matrix per item. Columns are contiguous; all strides are in bytes.
struct Matrices {
    int64_t start, step;  // address of item 0, and stride between items
    const int64_t* starts;  // address of each item if the stride is not constant; otherwise null
    int64_t row;
    int64_t at(int64_t item) const { return starts ? starts[item] : start + item * step; }
};

// One instruction of a mask program in postfix order: leaves push a mask, BOTH and NOT combine masks.
struct Node {
    int64_t kind;
    int64_t low, high;  // BAND: keys i + low to i + high are visible to query i
    const int64_t* left;  // KEYS, QUERIES: a count for each item; DOCUMENTS, DENSE: an address for each item
    const int64_t* right;  // DOCUMENTS: address of the keys' ids for each item
    int64_t row, column;  // DENSE: bytes from query to query and from key to key
};

// Whether another thread has cancelled the call. The output of a cancelled call is unspecified.
static inline bool stopped(const int32_t* stop) { return stop && __atomic_load_n(stop, __ATOMIC_RELAXED); }

struct Problem {
    int64_t items, n, m, d, e;
    int64_t groups;  // runs of items that share keys and values
    const int64_t* group;  // (groups + 1,) first item of each group; null if each item is its own group
    int32_t compute, queries_type, keys_type, values_type;  // type of the arithmetic, and storage types
    int32_t score, bias, bias_type;
    int32_t merges_parts;  // backward: whether one task computes all parts of a group and stores only their sum
    Matrices queries, keys, values;
    double scale, softcap;  // softcap 0: none
    const void* vector;  // PERCEPTRON: (d,) in the compute type
    double width;  // DISTANCES
    const Node* program;
    int64_t nodes;
    const int64_t* bias_address;  // ARRAY_BIAS: address per item; DISTANCE_BIAS: of a table over i - j + m - 1 per item
    int64_t bias_row, bias_column;  // bytes
    void* context;  // (items, n, e) in the compute type
    void* statistic;  // (items, 2, n): maximum logit in base 2 and log2 of the sum; or null
    // Backward. The queries of an item are split into `parts`; each part sums the gradients of keys and values
    // separately.
    int64_t parts;
    int64_t tasks_span_groups;  // whether a task is one part of all groups, since they share a bias gradient
    Matrices dcontext;  // all gradients have the compute type
    void* dqueries;  // (items, n, d)
    // (groups, parts, m, d) and (groups, parts, m, e), padded rows, initially 0; 1 part if merges_parts. `dvalues` is null
    // where they are constants.
    void *dkeys, *dvalues;
    const int64_t* dbias;  // (items, parts) addresses of zeroed arrays, or null
    int64_t dbias_row, dbias_column;
    void* dparameters;  // PERCEPTRON: (groups, parts, d), padded; DISTANCES: (groups, parts); initially 0
    int64_t threads;
    const int32_t* stop;  // nonzero cancels the call; or null
    // Forward with the keys split over several calls: this call has the keys from from_key to to_key, from_key a
    // multiple of CHUNK. Between calls `context` holds the unnormalised sums and `statistic` the running maximum and
    // running sum. `taints` (items, n, e) starts as zeros.
    int64_t from_key, to_key;
    uint8_t* taints;

    int64_t first(int64_t g) const { return group ? group[g] : g; }
};

// Gated recurrent units (GRU) over complete sequences, float32 only (kernels/recurrence.py mirrors the struct). Letters: B
// sequences, H size of the state; for attention T positions, A size of queries and keys, C size of values.
struct Recurrence {
    int64_t steps, batch, size;  // n, B, H
    int64_t reversed;  // whether steps run from the last to the first
    int64_t input_row, state_row, dinput_row, dstate_row;  // row strides in elements; steps are B rows apart
    const int64_t* lengths;  // (B,) number of steps of each sequence, after which its state stays; null: all
    const float *inputs, *state_weight, *state_bias, *start;  // (n, B, 3H), (H, 3H), (3H,) or null, (B, H)
    float* states;  // (n, B, H), after each step
    float* gates;  // (n, B, 4 H padded): gates saved for the backward pass, in a layout of the kernel's own
    // With attention before each step; null without.
    int64_t positions, hidden, context;  // T, A, C
    const int64_t* valid_positions;  // (B,) number of valid positions of each sequence
    const float *keys, *values;  // (B, T, A), (B, T, C)
    // (H, A), (A,), (C, 3H) or null: the first 3H columns of the values are already projected
    const float *query_weight, *vector, *context_weight;
    float *queries, *weights, *contexts;  // (n, B, A), (n, B, T), (n, B, C)
    // With a second GRU step after the attention, which takes the context as its input; null without.
    const float *second_weight, *second_bias;  // (H, 3H), (3H,)
    float *attending_states, *second_gates;  // (n, B, H): states between both steps; like `gates`
    // In a beam search, rows are hypotheses and there are keys and values for `sentences` sentences. `workspace`
    // lives across calls.
    int64_t sentences;
    const int64_t* sentence_of_row;  // (B,) the sentence that each row attends to; null: row b attends to sentence b
    char* workspace;  // regard_recurrence_bytes bytes, or null
    int64_t workspace_filled;  // whether a call with the same weights has already filled it
    // Backward.
    const float *dstates, *dcontexts, *dweights;  // gradients of states, contexts and weights (or null)
    float *dinputs, *dhidden, *dstart;  // (n, B, 3H) twice, (B, H)
    float *dsecond, *dsecond_hidden;  // (n, B, 3H) twice: of the second GRU
    float *dqueries, *dkeys, *dvalues, *dvector;  // dkeys and dvalues are accumulated
    const int32_t* stop = nullptr;  // as in Problem
};

// Bytes of workspace for a product and for an output layer.
constexpr int64_t PRODUCT_BYTES = 800 << 10, PREDICTION_BYTES = (608 << 10) + PRODUCT_BYTES;

enum : int64_t { TANH = 1, RECTIFIER = 2 };
// A matrix product with bias and activation (kernels/matrix.py mirrors the struct).
struct Product {
    int64_t rows, depth, columns;
    int64_t a_row, a_column, b_row, b_column;  // strides in elements: one of the two is 1
    int64_t out_row;
    const float *a, *b, *bias;  // (rows, depth), (depth, columns), (columns,) or null
    float *out, *column_sums;  // (rows, columns); (columns,) column sums of b, or null
    int64_t accumulate, activation;  // whether to add to `out`; the activation, or 0
    const int32_t* stop = nullptr;  // as in Problem
};

// Cross-entropy with label smoothing (nn/loss.py defines it); kernels/training.py mirrors these structs.
struct Softmax {
    int64_t rows, words;
    float* logits;  // (rows, words), overwritten by their gradient
    const float* bias;  // (words,) added to the logits, or null
    float* dbias;  // (words,) accumulated, or null
    const int64_t* targets;  // (rows,)
    float* statistics;  // (rows, 3): sum of exponentials, target logit, sum of logits, all relative to the maximum
    float scale, smoothing, target_weight;  // gradient = scale * p - smoothing, and - target_weight at the target
};
// Cross-entropy of logits = readout @ weight.T + bias, computed one block of words at a time.
struct Prediction {
    int64_t rows, words, size;  // N, V, E
    const float *readout, *weight, *bias;  // (N, E), (V, E), (V,) or null
    const int64_t* targets;  // (N,)
    float* statistics;  // (N, 4): maximum logit, sum of exponentials relative to it, target logit, sum of logits
    float *dreadout, *dweight, *dbias;  // backward: written; dbias (V,) is accumulated
    float* saved_logits;  // (N, V padded to WORD_BLOCK): overwritten by the backward pass; null: recomputed
    float scale, smoothing, target_weight;  // as above
    const int32_t* stop = nullptr;  // as in Problem
};
constexpr int64_t PANEL_COLUMNS = 48;  // columns of a panel; a matrix this narrow is read without packing
constexpr int64_t WORD_BLOCK = 192;  // words of a block of logits
// The `count` largest logits of each row in descending order, ties by word; missing ones are -inf.
struct TopK {
    int64_t rows, words, size, count, first;  // words below `first` are excluded from the selection
    const float* logits;  // (rows, words); or null, and then computed from:
    // (rows, size), (panels, size, PANEL_COLUMNS), (panels, PANEL_COLUMNS), padded with 0
    const float *readout, *weight, *bias;
    float *values, *statistics;  // (rows, count); (rows, 2): maximum logit of all words, sum of exponentials
    int64_t* indices;  // (rows, count)
};
// One Adam step (nn/adam.py defines it).
struct Adam {
    int64_t count;
    float *parameters, *mean, *square;
    const float* gradient;
    float keep_mean, add_mean, keep_square, add_square, epsilon, rate;
};

// Rows added to rows of a table, the gradient of an embedding.
struct Rows {
    int64_t rows, size;
    const int64_t* indices;  // (rows,) index into the table
    const float* updates;  // (rows, size)
    float* table;  // (any, size)
};

// Row-wise operations of layers (kernels/rows.py mirrors the structs).
struct Norm {
    int64_t rows, size;
    const float *x, *gain, *shift;  // (rows, size), (size,) twice
    float *y, *moments;  // (rows, size); (rows, 2): mean and reciprocal standard deviation
    // Backward. dgain and dshift are accumulated.
    const float *dy, *dresidual;  // (rows, size); gradient added to dx, or null
    float *dx, *dgain, *dshift;
    float epsilon;
};
struct Drop {
    int64_t count;
    const uint16_t* random_bits;
    const float* x;
    float* y;
    int32_t threshold;  // elements with a random number below this are dropped
    float scale;
};
struct Relu {
    int64_t count;
    const float* y;  // max(x, 0)
    float* gradient;  // gradient of y, overwritten by the gradient of x
};

// The places of a text where n-grams of another begin (kernels/nearest.py mirrors the struct). Letters: N tokens of the
// text, M of the other.
struct Find {
    int64_t size, places, longest, width;  // N, M, the longest n-gram, bytes of a token of the text
    const void* text;  // (N,) unsigned
    const uint32_t* entries;  // (N,) sorted places of the text, times 8
    const int64_t* tokens;  // (M + longest,)
    const int64_t* order;  // (M,) the places of the other text, sorted by the longest n-gram from there on
    int64_t *first, *stop;  // (longest, M) ranges of entries
};

// The sequences that have most in common with queries (kernels/nearest.py mirrors the struct). Letters: R queries, G
// n-grams, N entries, P sequences.
struct Nearest {
    int64_t rows, count, sequences, size, width;  // R, results of each, P, N, bytes of a token of the text
    const void* text;  // (N,) unsigned
    const int64_t* starts;  // (P + 1,) where each sequence begins in the text; its end last
    const int64_t* row;  // (R + 1,) where each query's n-grams begin
    int64_t* grams;  // numbers of the queries' n-grams, in the order in which their weights are added; overwritten
    int64_t* rarest;  // as many numbers as the longest query has n-grams
    const int64_t *first, *stop, *lengths;  // (G,) the range of each n-gram's entries, and its number of tokens
    const float* weights;  // (G,)
    const uint32_t* entries;  // (N,) an n-gram counts where the last three bits are below its length
    const int32_t* owners;  // (N,) the sequence of each entry
    const float* scales;  // (P,)
    float* sums;  // (P,) zeros, before and after
    int32_t* touched;  // (P,)
    const int64_t* excluded;  // (R,) a sequence that is not a result
    int64_t* best;  // (R, count) -1 after the last
};

// Functions for training. Null for baseline instruction sets, where NumPy does it.
struct Training {
    int64_t (*scratch)(const Recurrence&);  // bytes
    void (*recur)(const Recurrence&, bool backward, char* scratch);
    void (*multiply)(const Product&, char* scratch);
    void (*predict)(const Prediction&, bool backward, char* scratch);
    void (*cross_entropy)(const Softmax&);
    void (*add_rows)(const Rows&);
    void (*adam)(const Adam&);
    void (*top_k)(const TopK&, char* scratch);
    void (*norm)(const Norm&, bool backward);
    void (*drop)(const Drop&);
    void (*relu_backward)(const Relu&);
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
