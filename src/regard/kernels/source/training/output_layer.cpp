// The output layer: logits, softmax and loss without storing all logits of a large vocabulary; float32.
//
// Logits are computed one block of words at a time and stay in the cache. The forward pass computes the maximum and the
// sum of exponentials of each row online, as attention does over keys (docs/kernel.md); beam search also selects the
// largest logits. The backward pass recomputes each block unless it was saved, turns it into the gradient of the
// logits, and multiplies it with both matrices.
#include "core/tails.h"

namespace regard {
namespace ISA {

void multiply(const Product& p, bool backward, char* scratch);  // matrix.cpp

// The online softmax of a row, separate in each lane, so that lanes are only reduced after the last block.
struct RunningSoftmax {
    Vector maxima, totals, sums;

    // Add a block of words; returns its maximum in each lane.
    INLINE Vector update(const float* x, int64_t words, bool first_block) {
        Vector largest = broadcast(-INF<float>);
        for_vectors(words, [&](auto full, int64_t i) INLINE_LAMBDA {
            const int64_t remaining = words - i;
            largest = larger(full ? load(x + i) : load_tail(x + i, remaining) + tail_mask(remaining), largest);
        });
        const Vector before = first_block ? broadcast(-INF<float>) : maxima;
        maxima = larger(largest, before);
        const Vector base = maxima > -INF<float> ? maxima : Vector{};
        Vector exponentials = first_block ? Vector{} : totals * exp2<float>((before - base) * float(LOG2E));
        Vector logit_sums = first_block ? Vector{} : sums;
        for_vectors(words, [&](auto full, int64_t i) INLINE_LAMBDA {
            const int64_t remaining = words - i;
            const Vector logits_here = load_vector(full, x + i, remaining);
            exponentials +=
                exp2<float>(((full ? logits_here : logits_here + tail_mask(remaining)) - base) * float(LOG2E));
            logit_sums += logits_here;
        });
        totals = exponentials, sums = logit_sums;
        return largest;
    }

    // Write the maximum logit and the sum of exponentials relative to it.
    INLINE void finish(float* statistics) const {
        float maximum = maxima[0];
        for (int u = 1; u < LANES; u++) maximum = maxima[u] > maximum ? maxima[u] : maximum;
        statistics[0] = maximum, statistics[1] = sum<float>(totals * exp2<float>((maxima - maximum) * float(LOG2E)));
    }
};

// negligible next to the probabilities' sum of 1; products of smaller numbers would be subnormal, which is slow
constexpr float MIN_GRADIENT = 0x1p-100f;
constexpr int64_t ROWS_PER_BLOCK = 512, ROWS_PER_SELECTION = 128;
static_assert(PRODUCT_BYTES +
                  ROWS_PER_BLOCK * (WORD_BLOCK * int64_t(sizeof(float)) + int64_t(sizeof(RunningSoftmax))) <=
              PREDICTION_BYTES);

class Predict {
    const Prediction& p;
    char* scratch;
    float *const block_buffer, *const saved;  // logits of a block; saved logits of all blocks, or null
    RunningSoftmax* running;  // of each row
    int64_t row, rows, first, words;  // rows and words of the block
    float* block;  // logits [row][WORD_BLOCK]

   public:
    Predict(const Prediction& p, char* scratch)
        : p(p), scratch(scratch), block_buffer(reinterpret_cast<float*>(scratch + PRODUCT_BYTES)),
          saved(p.saved_logits),
          running(reinterpret_cast<RunningSoftmax*>(block_buffer + WORD_BLOCK * ROWS_PER_BLOCK)) {}

    void run(bool backward) {
        for (row = 0; row < p.rows; row += ROWS_PER_BLOCK)
            for (first = 0; first < p.words && !stopped(p.stop); first += WORD_BLOCK) {
                rows = std::min<int64_t>(ROWS_PER_BLOCK, p.rows - row),
                words = std::min<int64_t>(WORD_BLOCK, p.words - first);
                block = saved ? saved + row * round_up(WORD_BLOCK, p.words) + rows * first : block_buffer;
                if (!(backward && saved)) logits();
                for (int64_t r = 0; r < rows; r++) backward ? logits_gradient(r) : update_row(r);
                if (backward) multiply_gradient();
            }
    }

   private:
    const float* readout() const { return p.readout + row * p.size; }
    const float* weight() const { return p.weight + first * p.size; }
    bool has_target(int64_t r) const { return p.targets[row + r] >= first && p.targets[row + r] < first + words; }

    void logits() const {
        multiply({rows, p.size, words, p.size, 1, 1, p.size, WORD_BLOCK, readout(), weight(),
                  p.bias ? p.bias + first : nullptr, block, nullptr, false, LINEAR, nullptr},
                 false, scratch);
    }

    void update_row(int64_t r) const {
        const float* x = block + r * WORD_BLOCK;
        running[r].update(x, words, first == 0);
        float* statistics =
            p.statistics + (row + r) * 4;  // maximum logit, sum of exponentials, target logit, sum of logits
        if (has_target(r)) statistics[2] = x[p.targets[row + r] - first];
        if (first + words == p.words) running[r].finish(statistics), statistics[3] = sum<float>(running[r].sums);
    }

    // Turn a row of the block into the gradient of its logits.
    void logits_gradient(int64_t r) const {
        float* x = block + r * WORD_BLOCK;
        const float maximum = p.statistics[(row + r) * 4], factor = p.scale / p.statistics[(row + r) * 4 + 1];
        float* dbias = p.dbias + first;
        for_vectors(words, [&](auto full, int64_t i) INLINE_LAMBDA {
            const int64_t remaining = words - i;
            const Vector logits_here = load_vector(full, x + i, remaining);
            const Vector exact = exp2<float>((logits_here - maximum) * float(LOG2E)) * factor - p.smoothing;
            const Vector d = (exact < 0 ? -exact : exact) < MIN_GRADIENT ? Vector{} : exact;
            store_vector(full, x + i, d, remaining);
            store_vector(full, dbias + i, load_vector(full, dbias + i, remaining) + d, remaining);
        });
        if (!has_target(r)) return;
        const int64_t target = p.targets[row + r] - first;
        x[target] -= p.target_weight, dbias[target] -= p.target_weight;
    }

    // Accumulate the block's gradients of readouts and matrix.
    void multiply_gradient() const {
        multiply({rows, words, p.size, WORD_BLOCK, 1, p.size, 1, p.size, block, weight(), nullptr,
                  p.dreadout + row * p.size, nullptr, first > 0, LINEAR, nullptr},
                 false, scratch);
        multiply({words, rows, p.size, 1, WORD_BLOCK, p.size, 1, p.size, block, readout(), nullptr,
                  p.dweight + first * p.size, nullptr, row > 0, LINEAR, nullptr},
                 false, scratch);
    }
};

// A bit per lane of x that is above a threshold.
INLINE uint32_t lanes_above(Vector x, float threshold) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, (__m512)broadcast(threshold), _CMP_GT_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)(x > threshold));
#else
    uint32_t bits = 0;
    for (int u = 0; u < LANES; u++) bits |= uint32_t(x[u] > threshold) << u;
    return bits;
#endif
}

// Selects the largest logits. The matrix is packed in panels [depth][word].
class SelectTopK {
    const TopK& p;
    char* scratch;
    float* block;
    RunningSoftmax* running;
    int64_t row, rows, first, words;

   public:
    SelectTopK(const TopK& p, char* scratch)
        : p(p), scratch(scratch), block(reinterpret_cast<float*>(scratch + PRODUCT_BYTES)),
          running(reinterpret_cast<RunningSoftmax*>(block + WORD_BLOCK * ROWS_PER_BLOCK)) {}

    void run() {
        for (row = 0; row < p.rows; row += ROWS_PER_SELECTION)
            for (first = 0; first < p.words; first += WORD_BLOCK) {
                rows = std::min<int64_t>(ROWS_PER_SELECTION, p.rows - row),
                words = std::min<int64_t>(WORD_BLOCK, p.words - first);
                if (!p.logits) logits();
                for (int64_t r = 0; r < rows; r++)
                    p.logits ? update_row(r, p.logits + (row + r) * p.words + first)
                             : update_row(r, block + r * WORD_BLOCK);
            }
    }

   private:
    void logits() const {
        for (int64_t w = 0; w < words; w += PANEL_COLUMNS)
            multiply({rows, p.size, PANEL_COLUMNS, p.size, 1, PANEL_COLUMNS, 1, WORD_BLOCK, p.readout + row * p.size,
                      p.weight + (first + w) * p.size, p.bias + first + w, block + w, nullptr, false, LINEAR, nullptr},
                     false, scratch);
    }

    void update_row(int64_t r, const float* x) const {
        float* values = p.values + (row + r) * p.count;
        int64_t* indices = p.indices + (row + r) * p.count;
        if (first == 0)
            for (int64_t i = 0; i < p.count; i++) values[i] = -INF<float>, indices[i] = 0;
        if (lanes_above(running[r].update(x, words, first == 0), values[p.count - 1]))
            select_from_block(x, values, indices);
        if (first + words == p.words) running[r].finish(p.statistics + (row + r) * 2);
    }

    void select_from_block(const float* x, float* values, int64_t* indices) const {
        for (int64_t i = 0; i < words; i += LANES) {
            const Vector logits_here = load_partial(x + i, words - i) + tail_mask(words - i);
            for (uint32_t bits = lanes_above(logits_here, values[p.count - 1]); bits; bits &= bits - 1) {
                const int64_t j = i + __builtin_ctz(bits);
                if (first + j >= p.first && x[j] > values[p.count - 1]) insert(x[j], first + j, values, indices);
            }
        }
    }

    // Insert a value into the sorted list after equal ones.
    void insert(float x, int64_t index, float* values, int64_t* indices) const {
        int64_t i = p.count - 1;
        for (; i > 0 && values[i - 1] < x; i--) values[i] = values[i - 1], indices[i] = indices[i - 1];
        values[i] = x, indices[i] = index;
    }
};

void predict(const Prediction& p, bool backward, char* scratch) { Predict(p, scratch).run(backward); }
void top_k(const TopK& p, bool, char* scratch) { SelectTopK(p, scratch).run(); }

}  // namespace ISA
}  // namespace regard
