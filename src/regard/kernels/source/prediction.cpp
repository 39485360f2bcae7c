// The end of a network: products with a matrix of words, softmax and loss, without ever holding all logits; float32.
//
// Logits are made a block of words at a time and stay in the cache. The way there finds for each row the largest one and
// the sum of exponentials, as attention does over its keys (docs/kernel.md); the way back makes the block again, turns it
// into the gradient of the logits, and multiplies it with both matrices at once.
#include "some.h"

namespace regard {
namespace ISA {

void multiply(const Product& p, char* scratch);  // matrix.cpp

constexpr int64_t WORDS = 192, ROWS_AT_ONCE = 512, PRODUCT_ROOM = 256 << 10;
static_assert(PRODUCT_ROOM + WORDS * ROWS_AT_ONCE * int64_t(sizeof(float)) <= KEPT);

class Predict {
    const Prediction& p;
    char* scratch;
    float* block;                     // logits [row][WORDS]
    int64_t row, rows, first, words;  // what is in it

   public:
    Predict(const Prediction& p, char* scratch)
        : p(p), scratch(scratch), block(reinterpret_cast<float*>(scratch + PRODUCT_ROOM)) {}

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

    // Let a row of the block join what is known of the words before.
    void meet(int64_t r) const {
        const float* x = block + r * WORDS;
        float* found = p.found + (row + r) * 4;  // largest logit, sum of exponentials, the target's logit, sum of logits
        if (first == 0) found[0] = -INF<float>, found[1] = found[3] = 0;
        Lane tops = all(found[0]);
        for (int64_t i = 0; i < words; i += UNITS) tops = larger(load_first(x + i, words - i) + absent(words - i), tops);
        float top = tops[0];
        for (int u = 1; u < UNITS; u++) top = tops[u] > top ? tops[u] : top;
        Lane totals{}, sums{};
        for (int64_t i = 0; i < words; i += UNITS) {
            const Lane here = load_first(x + i, words - i);
            totals += exp2<float>((here + absent(words - i) - top) * float(LOG2E));
            sums += here;
        }
        const float faded = found[1] > 0 ? exp2<float>((found[0] - top) * float(LOG2E)) : 0;
        found[1] = found[1] * faded + sum<float>(totals);
        found[0] = top;
        found[3] += sum<float>(sums);
        if (has_target(r)) found[2] = x[p.targets[row + r] - first];
    }

    // Turn a row of the block into the gradient of its logits.
    void slope(int64_t r) const {
        float* x = block + r * WORDS;
        const float top = p.found[(row + r) * 4], factor = p.share / p.found[(row + r) * 4 + 1];
        for (int64_t i = 0; i < words; i += UNITS) {
            const Lane grown = exp2<float>((load_first(x + i, words - i) - top) * float(LOG2E));
            store_first(x + i, grown * factor - p.spread, words - i);
        }
        if (has_target(r)) x[p.targets[row + r] - first] -= p.taken;
        float* dbias = p.dbias + first;
        for (int64_t i = 0; i < words; i += UNITS)
            store_first(dbias + i, load_first(dbias + i, words - i) + load_first(x + i, words - i), words - i);
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
