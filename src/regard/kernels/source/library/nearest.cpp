// N-grams in sorted places of a text, and the sequences that have most in common with a query: the sum of the weights of common n-grams, each multiplied by a
// factor of the sequence. The n-grams of each result don't count for the next.
#include "library/library.h"

namespace regard {
namespace {

constexpr uint32_t REPEATED = 7;  // the bits of an entry that count its repeated tokens
constexpr int BITS = 3;

// The first entry from `low` to `high` whose token at an offset is at least the wanted one; 0 after the text.
template <class T>
int64_t bisect(const Find& p, int64_t low, int64_t high, int64_t offset, int64_t wanted) {
    while (low < high) {
        const int64_t middle = (low + high) / 2, place = int64_t(p.entries[middle] >> BITS) + offset;
        const int64_t token = place < p.size ? int64_t(static_cast<const T*>(p.text)[place]) : 0;
        if (token < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
}

template <class T>
void find_all(const Find& p) {
    for (int64_t i = 0; i < p.places; i++) {
        int64_t first = 0, stop = p.size;
        for (int64_t offset = 0; offset < p.longest; offset++) {
            const int64_t token = p.tokens[i + offset];
            first = bisect<T>(p, first, stop, offset, token);
            stop = bisect<T>(p, first, stop, offset, token + 1);
            p.first[offset * p.places + i] = first, p.stop[offset * p.places + i] = stop;
        }
    }
}

// Add what an n-gram contributes; note the sequences whose sum was 0.
int64_t add(const Nearest& p, int64_t gram, int64_t touched) {
    const uint32_t length = uint32_t(p.lengths[gram]);
    const float weight = p.weights[gram];
    for (int64_t i = p.first[gram]; i < p.stop[gram]; i++) {
        if ((p.entries[i] & REPEATED) >= length) continue;
        const int32_t owner = p.owners[i];
        const float sum = p.sums[owner];
        if (sum == 0 && touched < p.sequences) p.touched[touched++] = owner;
        p.sums[owner] = sum + p.scales[owner] * weight;
    }
    return touched;
}

bool has(const Nearest& p, int64_t gram, int64_t sequence) {
    bool found = false;
    for (int64_t i = p.first[gram]; i < p.stop[gram]; i++) found |= p.owners[i] == sequence;
    return found;
}

// Set the sums to 0 again; return the first sequence of the largest, or -1.
int64_t largest(const Nearest& p, int64_t touched, int64_t excluded, const int64_t* earlier, int64_t results) {
    float most = 0;
    int64_t best = -1;
    for (int64_t t = 0; t < touched; t++) {
        const int64_t owner = p.touched[t];
        const float sum = p.sums[owner];
        p.sums[owner] = 0;
        bool allowed = owner != excluded;
        for (int64_t k = 0; k < results; k++) allowed &= owner != earlier[k];
        if (allowed && (sum > most || (sum == most && sum > 0 && owner < best))) most = sum, best = owner;
    }
    return best;
}

}  // namespace

void find(const Find& p) {
    if (p.width == 1) find_all<uint8_t>(p);
    else if (p.width == 2) find_all<uint16_t>(p);
    else if (p.width == 4) find_all<uint32_t>(p);
    else find_all<uint64_t>(p);
}

void nearest(const Nearest& p) {
    for (int64_t r = 0; r < p.rows; r++) {
        int64_t* best = p.best + r * p.count;
        for (int64_t k = 0; k < p.count; k++) {
            int64_t touched = 0;
            for (int64_t g = p.row[r]; g < p.row[r + 1]; g++)
                if (p.grams[g] >= 0) touched = add(p, p.grams[g], touched);
            best[k] = largest(p, touched, p.excluded[r], best, k);
            for (int64_t g = p.row[r]; g < p.row[r + 1]; g++)
                if (p.grams[g] >= 0 && best[k] >= 0 && has(p, p.grams[g], best[k])) p.grams[g] = -1;
        }
    }
}

}  // namespace regard
