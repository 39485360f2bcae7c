// The end of a network: products with a matrix of words, softmax and loss, without ever holding all logits; float32.
//
// Logits are made a block of words at a time and stay in the cache. The way there finds for each row the largest one and
// the sum of exponentials, as attention does over its keys (docs/kernel.md); the way back makes the block again, turns it
// into the gradient of the logits, and multiplies it with both matrices at once.
#include "some.h"

namespace regard {
namespace ISA {

void multiply(const Product& p, char* scratch);  // matrix.cpp

constexpr int64_t WORDS = 192, ROWS_AT_ONCE = 512;
static_assert(PRODUCT_ROOM + ROWS_AT_ONCE * (WORDS * int64_t(sizeof(float)) + 3 * BYTES) <= PREDICTION_ROOM);

class Predict {
    const Prediction& p;
    char* scratch;
    float* block;                     // logits [row][WORDS]
    struct Known {
        Lane tops, totals, sums;
    }* known_of;                      // of each row's words before the block, a number for each lane
    int64_t row, rows, first, words;  // what is in it

   public:
    Predict(const Prediction& p, char* scratch)
        : p(p), scratch(scratch), block(reinterpret_cast<float*>(scratch + PRODUCT_ROOM)),
          known_of(reinterpret_cast<Known*>(block + WORDS * ROWS_AT_ONCE)) {}

    void run(bool backward) {
        for (row = 0; row < p.rows; row += ROWS_AT_ONCE)
            for (first = 0; first < p.words; first += WORDS) {
                rows = std::min<int64_t>(ROWS_AT_ONCE, p.rows - row), words = std::min<int64_t>(WORDS, p.words - first);
                logits();
                for (int64_t r = 0; r < rows; r++) backward ? slope(r) : meet(r);
                if (backward) spread();
            }
    }

   private:
    const float* readout() const { return p.readout + row * p.size; }
    const float* weight() const { return p.weight + first * p.size; }
    bool has_target(int64_t r) const { return p.targets[row + r] >= first && p.targets[row + r] < first + words; }

    void logits() const {
        multiply({rows, p.size, words, p.size, 1, 1, p.size, WORDS, readout(), weight(), p.bias ? p.bias + first : nullptr,
                  block, nullptr, false, false}, scratch);
    }

    // Let a row of the block join what is known of the words before: each lane has a largest logit and sums of its own,
    // so that nothing is summed up across a vector before the last block.
    void meet(int64_t r) const {
        const float* x = block + r * WORDS;
        Known& known = known_of[r];
        const Lane before = first ? known.tops : all(-INF<float>);
        Lane tops = before;
        in_vectors(words, [&](auto whole, int64_t i) INLINE_LAMBDA {
            const int64_t some = words - i;
            tops = larger(whole ? load(x + i) : load_rest(x + i, some) + absent(some), tops);
        });
        const Lane base = tops > -INF<float> ? tops : Lane{};
        Lane totals = first ? known.totals * exp2<float>((before - base) * float(LOG2E)) : Lane{};
        Lane sums = first ? known.sums : Lane{};
        in_vectors(words, [&](auto whole, int64_t i) INLINE_LAMBDA {
            const int64_t some = words - i;
            const Lane here = load_some(whole, x + i, some);
            totals += exp2<float>(((whole ? here : here + absent(some)) - base) * float(LOG2E));
            sums += here;
        });
        known = {tops, totals, sums};
        float* found = p.found + (row + r) * 4;  // largest logit, sum of exponentials, the target's logit, sum of logits
        if (has_target(r)) found[2] = x[p.targets[row + r] - first];
        if (first + words < p.words) return;
        float top = tops[0];
        for (int u = 1; u < UNITS; u++) top = tops[u] > top ? tops[u] : top;
        found[0] = top, found[3] = sum<float>(sums);
        found[1] = sum<float>(totals * exp2<float>((tops - top) * float(LOG2E)));
    }

    // Turn a row of the block into the gradient of its logits.
    void slope(int64_t r) const {
        float* x = block + r * WORDS;
        const float top = p.found[(row + r) * 4], factor = p.share / p.found[(row + r) * 4 + 1];
        float* dbias = p.dbias + first;
        in_vectors(words, [&](auto whole, int64_t i) INLINE_LAMBDA {
            const int64_t some = words - i;
            const Lane here = load_some(whole, x + i, some);
            const Lane d = exp2<float>((here - top) * float(LOG2E)) * factor - p.spread;
            store_some(whole, x + i, d, some);
            store_some(whole, dbias + i, load_some(whole, dbias + i, some) + d, some);
        });
        if (!has_target(r)) return;
        const int64_t target = p.targets[row + r] - first;
        x[target] -= p.taken, dbias[target] -= p.taken;
    }

    // Give the block's gradient to readouts and matrix.
    void spread() const {
        multiply({rows, words, p.size, WORDS, 1, p.size, 1, p.size, block, weight(), nullptr, p.dreadout + row * p.size,
                  nullptr, first > 0, false}, scratch);
        multiply({words, rows, p.size, 1, WORDS, p.size, 1, p.size, block, readout(), nullptr, p.dweight + first * p.size,
                  nullptr, row > 0, false}, scratch);
    }
};

void predict(const Prediction& p, bool backward, char* scratch) { Predict(p, scratch).run(backward); }

}  // namespace ISA
}  // namespace regard
