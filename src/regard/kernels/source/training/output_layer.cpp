// The end of a network: products with a matrix of words, softmax and loss, without holding all logits where they are many;
// float32.
//
// Logits are made a block of words at a time and stay in the cache. The way there finds for each row the largest one and
// the sum of exponentials, as attention does over its keys (docs/kernel.md); a search also asks for the largest few. The
// way back makes the block again, unless it was kept, turns it into the gradient of the logits, and multiplies it with both
// matrices at once.
#include "core/tails.h"

namespace regard {
namespace ISA {

void multiply(const Product& p, char* scratch);  // matrix.cpp

// What is known of a row's words so far, a number for each lane: each has a largest logit and sums of its own, so that
// nothing is summed up across a vector before the last block.
struct Known {
    Lane tops, totals, sums;

    // Let more words join; return the largest of them, lane by lane.
    INLINE Lane join(const float* x, int64_t words, bool fresh) {
        Lane largest = all(-INF<float>);
        in_vectors(words, [&](auto whole, int64_t i) INLINE_LAMBDA {
            const int64_t some = words - i;
            largest = larger(whole ? load(x + i) : load_rest(x + i, some) + absent(some), largest);
        });
        const Lane before = fresh ? all(-INF<float>) : tops;
        tops = larger(largest, before);
        const Lane base = tops > -INF<float> ? tops : Lane{};
        Lane exponentials = fresh ? Lane{} : totals * exp2<float>((before - base) * float(LOG2E));
        Lane all_of_them = fresh ? Lane{} : sums;
        in_vectors(words, [&](auto whole, int64_t i) INLINE_LAMBDA {
            const int64_t some = words - i;
            const Lane here = load_some(whole, x + i, some);
            exponentials += exp2<float>(((whole ? here : here + absent(some)) - base) * float(LOG2E));
            all_of_them += here;
        });
        totals = exponentials, sums = all_of_them;
        return largest;
    }

    // Write the largest logit, and the sum of exponentials from it on.
    INLINE void finish(float* found) const {
        float top = tops[0];
        for (int u = 1; u < UNITS; u++) top = tops[u] > top ? tops[u] : top;
        found[0] = top, found[1] = sum<float>(totals * exp2<float>((tops - top) * float(LOG2E)));
    }
};

constexpr float NOTHING = 0x1p-100f;  // next to the probabilities' sum of 1; products of smaller numbers would be denormal, which is slow
constexpr int64_t ROWS_AT_ONCE = 512, ROWS_TO_RANK = 128;
static_assert(PRODUCT_ROOM + ROWS_AT_ONCE * (WORDS * int64_t(sizeof(float)) + int64_t(sizeof(Known))) <= PREDICTION_ROOM);

class Predict {
    const Prediction& p;
    char* scratch;
    float *const room, *const kept;   // for a block, for all of them
    Known* known_of;                  // each row
    int64_t row, rows, first, words;  // what is in the block
    float* block;                     // logits [row][WORDS]

   public:
    Predict(const Prediction& p, char* scratch)
        : p(p), scratch(scratch), room(reinterpret_cast<float*>(scratch + PRODUCT_ROOM)), kept(p.kept),
          known_of(reinterpret_cast<Known*>(room + WORDS * ROWS_AT_ONCE)) {}

    void run(bool backward) {
        for (row = 0; row < p.rows; row += ROWS_AT_ONCE)
            for (first = 0; first < p.words && !stopped(p.stop); first += WORDS) {
                rows = std::min<int64_t>(ROWS_AT_ONCE, p.rows - row), words = std::min<int64_t>(WORDS, p.words - first);
                block = kept ? kept + row * up_to(WORDS, p.words) + rows * first : room;
                if (!(backward && kept)) logits();
                for (int64_t r = 0; r < rows; r++) backward ? slope(r) : meet(r);
                if (backward) spread();
            }
    }

   private:
    const float* readout() const { return p.readout + row * p.size; }
    const float* weight() const { return p.weight + first * p.size; }
    bool has_target(int64_t r) const { return p.targets[row + r] >= first && p.targets[row + r] < first + words; }

    void logits() const {
        multiply({rows, p.size, words, p.size, 1, 1, p.size, WORDS, readout(), weight(), p.bias ? p.bias + first : nullptr, block,
                  nullptr, false, false}, scratch);
    }

    void meet(int64_t r) const {
        const float* x = block + r * WORDS;
        known_of[r].join(x, words, first == 0);
        float* found = p.found + (row + r) * 4;  // largest logit, sum of exponentials, the target's logit, sum of logits
        if (has_target(r)) found[2] = x[p.targets[row + r] - first];
        if (first + words == p.words) known_of[r].finish(found), found[3] = sum<float>(known_of[r].sums);
    }

    // Turn a row of the block into the gradient of its logits.
    void slope(int64_t r) const {
        float* x = block + r * WORDS;
        const float top = p.found[(row + r) * 4], factor = p.share / p.found[(row + r) * 4 + 1];
        float* dbias = p.dbias + first;
        in_vectors(words, [&](auto whole, int64_t i) INLINE_LAMBDA {
            const int64_t some = words - i;
            const Lane here = load_some(whole, x + i, some);
            const Lane exact = exp2<float>((here - top) * float(LOG2E)) * factor - p.spread;
            const Lane d = (exact < 0 ? -exact : exact) < NOTHING ? Lane{} : exact;
            store_some(whole, x + i, d, some);
            store_some(whole, dbias + i, load_some(whole, dbias + i, some) + d, some);
        });
        if (!has_target(r)) return;
        const int64_t target = p.targets[row + r] - first;
        x[target] -= p.taken, dbias[target] -= p.taken;
    }

    // Give the block's gradient to readouts and matrix.
    void spread() const {
        multiply({rows, words, p.size, WORDS, 1, p.size, 1, p.size, block, weight(), nullptr, p.dreadout + row * p.size, nullptr,
                  first > 0, false}, scratch);
        multiply({words, rows, p.size, 1, WORDS, p.size, 1, p.size, block, readout(), nullptr, p.dweight + first * p.size, nullptr,
                  row > 0, false}, scratch);
    }
};

// One bit for each lane of x that exceeds a bar.
INLINE uint32_t exceeding(Lane x, float bar) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, (__m512)all(bar), _CMP_GT_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)(x > bar));
#else
    uint32_t found = 0;
    for (int u = 0; u < UNITS; u++) found |= uint32_t(x[u] > bar) << u;
    return found;
#endif
}

// The largest logits instead of one target's. The matrix comes in parts, [depth][word].
class Rank {
    const Tops& p;
    char* scratch;
    float* block;
    Known* known_of;
    int64_t row, rows, first, words;

   public:
    Rank(const Tops& p, char* scratch)
        : p(p), scratch(scratch), block(reinterpret_cast<float*>(scratch + PRODUCT_ROOM)),
          known_of(reinterpret_cast<Known*>(block + WORDS * ROWS_AT_ONCE)) {}

    void run() {
        for (row = 0; row < p.rows; row += ROWS_TO_RANK)
            for (first = 0; first < p.words; first += WORDS) {
                rows = std::min<int64_t>(ROWS_TO_RANK, p.rows - row), words = std::min<int64_t>(WORDS, p.words - first);
                if (!p.logits) logits();
                for (int64_t r = 0; r < rows; r++)
                    p.logits ? meet(r, p.logits + (row + r) * p.words + first) : meet(r, block + r * WORDS);
            }
    }

   private:
    void logits() const {
        for (int64_t w = 0; w < words; w += NARROW)
            multiply({rows, p.size, NARROW, p.size, 1, NARROW, 1, WORDS, p.readout + row * p.size, p.weight + (first + w) * p.size,
                      p.bias + first + w, block + w, nullptr, false, false}, scratch);
    }

    void meet(int64_t r, const float* x) const {
        float* best = p.best + (row + r) * p.count;
        int64_t* places = p.places + (row + r) * p.count;
        if (first == 0)
            for (int64_t i = 0; i < p.count; i++) best[i] = -INF<float>, places[i] = 0;
        if (exceeding(known_of[r].join(x, words, first == 0), best[p.count - 1])) choose(x, best, places);
        if (first + words == p.words) known_of[r].finish(p.found + (row + r) * 2);
    }

    void choose(const float* x, float* best, int64_t* places) const {
        for (int64_t i = 0; i < words; i += UNITS) {
            const Lane here = load_first(x + i, words - i) + absent(words - i);
            for (uint32_t bits = exceeding(here, best[p.count - 1]); bits; bits &= bits - 1) {
                const int64_t j = i + __builtin_ctz(bits);
                if (first + j >= p.first && x[j] > best[p.count - 1]) insert(x[j], first + j, best, places);
            }
        }
    }

    // Put a number at its place among the largest so far; equal ones stay before it.
    void insert(float x, int64_t place, float* best, int64_t* places) const {
        int64_t i = p.count - 1;
        for (; i > 0 && best[i - 1] < x; i--) best[i] = best[i - 1], places[i] = places[i - 1];
        best[i] = x, places[i] = place;
    }
};

void predict(const Prediction& p, bool backward, char* scratch) { Predict(p, scratch).run(backward); }
void tops(const Tops& p, char* scratch) { Rank(p, scratch).run(); }

}  // namespace ISA
}  // namespace regard
