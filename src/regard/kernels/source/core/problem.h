// One attention as the Python side describes it (kernels/library.py has the same structures), and what an instruction
// set offers. Letters: n queries, m keys, d compared size, e value size; `items` separate n x m problems.
#pragma once

#include <cstdint>

namespace regard {

enum Type : int32_t { FLOAT32, FLOAT64, FLOAT16, BFLOAT16 };
enum Score : int32_t { PRODUCTS, PERCEPTRON, DISTANCES };
enum Kind : int32_t { BAND, KEYS, QUERIES, DOCUMENTS, DENSE, BOTH, NOT };
enum Bias : int32_t { NO_BIAS, ARRAY_BIAS, DISTANCE_BIAS };

// A matrix for each item: where its first row starts, and bytes from row to row. Columns lie side by side.
struct Matrices {
    int64_t start, step;    // of item 0, and bytes from item to item
    const int64_t* starts;  // of each item, where they lie in no such order; null otherwise
    int64_t row;
    int64_t at(int64_t item) const { return starts ? starts[item] : start + item * step; }
};

// One step of the program that says who may see whom: leaves push an answer, BOTH joins two, NOT turns one around.
struct Node {
    int64_t kind;
    int64_t low, high;       // BAND: query i sees keys i + low to i + high
    const int64_t* left;     // KEYS, QUERIES: a count for each item; DOCUMENTS, DENSE: an address for each item
    const int64_t* right;    // DOCUMENTS: address of the keys' ids for each item
    int64_t row, column;     // DENSE: bytes from query to query and from key to key
};

// Whether another thread has asked a call to return early: what it writes need not be right then.
static inline bool stopped(const int32_t* stop) { return stop && __atomic_load_n(stop, __ATOMIC_RELAXED); }

struct Problem {
    int64_t items, n, m, d, e;
    int64_t groups;        // runs of items that read the same keys and values
    const int64_t* group;  // (groups + 1,) where each begins; null where every item is one
    int32_t compute, queries_type, keys_type, values_type;  // types: of the arithmetic, and as they are stored
    int32_t score, bias, bias_type;
    int32_t together;  // backward: whether one task does all parts of a group, and keeps their sum only
    Matrices queries, keys, values;
    double scale, softcap;  // softcap 0: none
    const void* vector;     // PERCEPTRON: (d,) in the compute type
    double width;           // DISTANCES
    const Node* program;
    int64_t nodes;
    const int64_t* bias_address;    // ARRAY_BIAS: for each item; DISTANCE_BIAS: of a table over i - j + m - 1
    int64_t bias_row, bias_column;  // bytes
    void* context;                  // (items, n, e) in the compute type
    void* statistic;                // (items, 2, n): base 2 logit counted from, base 2 logarithm of the sum; or null
    // Backward; the queries of an item are cut into `parts`, whose gradients of the keys' side are summed up apart.
    int64_t parts;
    int64_t serial;                        // whether one task does all groups, since a bias collects from them all
    Matrices dcontext;      // in the compute type, as all gradients
    void* dqueries;         // (items, n, d)
    void *dkeys, *dvalues;  // (groups, parts, m, d), (groups, parts, m, e), rows filled up; one part if together; zeros
    const int64_t* dbias;   // (items, parts) addresses, zeros before, or null
    int64_t dbias_row, dbias_column;
    void* dlearned;         // PERCEPTRON: (groups, parts, d), filled up; DISTANCES: (groups, parts); zeros before
    int64_t threads;        // that share the work
    const int32_t* stop;    // not 0 once the call is to return early; or null
    // Forward, where keys come in several calls: these ones, from a multiple of CHUNK on. Between calls `context` holds sums
    // and `statistic` the largest logit and the total, as they are; `taints` (items, n, e) starts as zeros.
    int64_t from_key, to_key;
    uint8_t* taints;

    int64_t first(int64_t g) const { return group ? group[g] : g; }
};

// Gated recurrent units over whole sequences, all of float32 (kernels/recurrence.py has the same structure). Letters:
// B sequences, H the state's size; T positions that are looked at, A their compared size, C their values' size.
struct Recurrence {
    int64_t steps, batch, size;  // n, B, H
    int64_t reversed;            // whether the last step comes first
    int64_t input_row, state_row, dinput_row, dstate_row;  // numbers from row to row; steps are B rows apart
    const int64_t* lengths;      // (B,) steps of each sequence, after which its state stays; null: all
    const float *inputs, *state_weight, *state_bias, *start;  // (n, B, 3H), (H, 3H), (3H,) or null, (B, H)
    float* states;               // (n, B, H), after each step
    float* gates;                // (n, B, 4 H filled up): kept for the way back, in an order of the kernel's own
    // With a look before each step; null without.
    int64_t positions, hidden, context;                          // T, A, C
    const int64_t* seen;                                         // (B,) positions of each sequence
    const float *keys, *values;                                  // (B, T, A), (B, T, C)
    const float *query_weight, *vector, *context_weight;         // (H, A), (A,), (C, 3H); null: values begin with what they give the gates
    float *queries, *weights, *contexts;                         // (n, B, A), (n, B, T), (n, B, C)
    // With one more step after each look, which reads what was seen, and the bias; null without.
    const float *after_weight, *after_bias;                      // (H, 3H), (3H,)
    float *between, *after_gates;                                // (n, B, H), the states that look; like `gates`
    // In a search rows are hypotheses. What is looked at has `sentences` rows then, and there is room that is kept.
    int64_t sentences;
    const int64_t* sentence;                                     // (B,) which one a row looks at; null: its own
    char* kept;                                                  // regard_recurrence_room bytes, or null
    int64_t warm;                                                // whether a call with the same weights filled it
    // Backward.
    const float *dstates, *dcontexts, *dweights;                 // of states, contexts and weights (or null)
    float *dinputs, *dhidden, *dstart;                           // (n, B, 3H) twice, (B, H)
    float *dafter, *dafter_hidden;                               // (n, B, 3H): of the step after, the same two
    float *dqueries, *dkeys, *dvalues, *dvector;                 // dkeys and dvalues are added to
    const int32_t* stop = nullptr;                               // as in Problem
};

// Bytes of workspace for a product and for a prediction.
constexpr int64_t PRODUCT_ROOM = 800 << 10, PREDICTION_ROOM = (608 << 10) + PRODUCT_ROOM;

enum : int64_t { TANH = 1, RECTIFIER = 2 };
// A product of two matrices, and what often follows it (kernels/matrix.py has the same structure).
struct Product {
    int64_t rows, depth, columns;
    int64_t a_row, a_column, b_row, b_column;  // numbers from row to row and from column to column: one of the two is 1
    int64_t out_row;
    const float *a, *b, *bias;  // (rows, depth), (depth, columns), (columns,) or null
    float *out, *sums;          // (rows, columns); (columns,) the sums of b's columns, or null
    int64_t onto, squash;       // whether the product is added to what is there; which of these follows, or 0
    const int32_t* stop = nullptr;  // as in Problem
};

// A softmax compared with the words that came (nn/loss.py says how); kernels/training.py has the same structures.
struct Softmax {
    int64_t rows, words;
    float* logits;               // (rows, words), which become their gradient
    const float* bias;           // (words,) added first, or null
    float* dbias;                // (words,) added to, or null
    const int64_t* targets;      // (rows,)
    float* found;                // (rows, 3): sum of exponentials, the target's logit, sum of logits, from the largest on
    float share, spread, taken;  // what probabilities are multiplied with, and what is taken off all and off the target
};
// The same of logits = readout @ weight transposed + bias, which are never held all at once.
struct Prediction {
    int64_t rows, words, size;               // N, V, E
    const float *readout, *weight, *bias;    // (N, E), (V, E), (V,) or null
    const int64_t* targets;                  // (N,)
    float* found;                            // (N, 4): largest logit, sum of exponentials from it on, the target's, the sum
    float *dreadout, *dweight, *dbias;       // backward: written; dbias (V,) is added to
    float* kept;  // (N, V filled up to blocks of WORDS): logits for the way back, which writes over them; null: made again
    float share, spread, taken;              // as above
    const int32_t* stop = nullptr;           // as in Problem
};
constexpr int64_t NARROW = 48;   // columns of a matrix whose rows are so near to each other that nobody packs them
constexpr int64_t WORDS = 192;   // that are predicted at a time
// The largest logits of each row, in falling order; of equals the first. What is missing is -inf.
struct Tops {
    int64_t rows, words, size, count, first;  // words before the first are not looked for
    const float* logits;                      // (rows, words); or null, and what they are made of:
    const float *readout, *weight, *bias;     // (rows, size), (parts, size, NARROW), (parts, NARROW), with 0 at the end
    float *best, *found;                      // (rows, count); (rows, 2): the largest of all, the sum of exponentials
    int64_t* places;                          // (rows, count)
};
// A sentence that a search found: its score (NaN if it was broken off) and the logarithm of its last word's probability;
// the step that said this word, the row that it came after, and the word (-1 if none was left).
struct Ending {
    double score, log;
    int64_t step, row, word;
};
// A search with a plain decoder (kernels/search.py has the same structure). S sentences, k = width.
struct Search {
    Recurrence decoder;                                // of S sentences; what belongs to rows is the search's own
    int64_t words, size, begin, end;                   // V, E; the words before the first and after the last
    const float *embedding, *word_weight, *word_bias;  // (V, E); (E, 3H + E), (3H + E,): what words give to gates and readout
    const float *readout_weight;                       // (H, E)
    const float *output_weight, *output_bias;          // as in Tops
    int64_t width, n_best;                             // hypotheses of a sentence; endings kept
    const int64_t* most;                               // (S,) words after which it is broken off
    char* room;                                        // regard_search_room bytes, at a multiple of 64; kept from call to call
    int64_t step, rows;                                // so far, and that go on: 0 at first
    // What was said, as long as there is room for the rows of a step: words, rows before, log-probabilities, weights.
    int64_t capacity, steps_taken;                     // rows; steps of this call
    int64_t *taken, *said, *parents;                   // (capacity,) each; the first: rows of each step
    double* logs;                                      // (capacity,)
    float* looks;                                      // (capacity, T)
    int64_t* ended;                                    // (S,) endings of each sentence
    Ending* endings;                                   // (S, n_best), the best first
    double penalty, offset;                            // of n words: log P / ((offset + n) / (offset + 1))^penalty is the score
    double wrong;                                      // a number that is not finite, if there was one
};
// A step of Adam (nn/adam.py says how).
struct Adam {
    int64_t count;
    float *parameters, *mean, *square;
    const float* gradient;
    float keep_mean, add_mean, keep_square, add_square, epsilon, rate;
};

// Rows that are added to those of a table.
struct Rows {
    int64_t rows, size;
    const int64_t* places;  // (rows,) which row of the table
    const float* added;     // (rows, size)
    float* table;           // (any, size)
};

// What layers do to rows (kernels/rows.py has the same structures).
struct Norm {
    int64_t rows, size;
    const float *x, *gain, *shift;  // (rows, size), (size,) twice
    float *y, *moments;             // (rows, size); (rows, 2): the mean, and 1 over the root of the variance
    // Backward. dgain and dshift are added to.
    const float *dy, *onto;         // (rows, size); what is added to dx, or null
    float *dx, *dgain, *dshift;
    float epsilon;
};
struct Drop {
    int64_t count;
    const uint16_t* chances;
    const float* x;
    float* y;
    int32_t bar;                    // from which chance on a number is kept
    float scale;
};
struct Rectified {
    int64_t count;
    const float* y;                 // max(x, 0)
    float* d;                       // its gradient, which becomes that of x
};

// What an instruction set offers beside attention. Null for the oldest machines: NumPy does it there.
struct Training {
    int64_t (*scratch)(const Recurrence&);  // bytes
    void (*recur)(const Recurrence&, bool backward, char* scratch);
    void (*multiply)(const Product&, char* scratch);
    void (*predict)(const Prediction&, bool backward, char* scratch);
    void (*cross_entropy)(const Softmax&);
    void (*add_rows)(const Rows&);
    void (*adam)(const Adam&);
    void (*tops)(const Tops&, char* scratch);
    int64_t (*search_room)(const Search&);  // bytes
    bool (*search)(Search&, char* scratch);
    void (*norm)(const Norm&, bool backward);
    void (*drop)(const Drop&);
    void (*unrectify)(const Rectified&);
};

constexpr int KEYS_AT_ONCE = 128;  // keys in a block: a strip of scores stays in the nearest cache
enum Seen { NOBODY, SOME, EVERYBODY };
// What a tile of queries sees of a block of keys: for each key a bit for each query. Only the keys from first to last - 1
// matter: EVERYBODY sees those, SOME see them by their words.
using Words = uint64_t[KEYS_AT_ONCE];
struct Visibility {
    Words words;
    int64_t first, last;
};

extern const bool made_by_amd;  // the processor

// What an instruction set offers. A pass is done in phases, a phase in tasks that any thread may take.
struct Kernel {
    const char* name;
    int64_t (*shared)(const Problem&, bool backward);             // bytes that all threads share
    int64_t (*scratch)(const Problem&, bool backward);            // bytes for each thread
    int64_t (*tasks)(const Problem&, bool backward, int phase);   // 0: no such phase, or nothing to do
    void (*run)(const Problem&, bool backward, int phase, int64_t task, char* shared, char* scratch);
    void (*exp2)(const void* x, void* y, int64_t count, int32_t type);  // for tests: count is a multiple of 16
    Training training;
    // Who of a block sees whom (mask.h).
    Seen (*guess)(const Problem&, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys);
    Seen (*look)(const Problem&, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys, Visibility&);
};
constexpr int PHASES = 2;

}  // namespace regard
