// N-grams in sorted places of a text, and the sequences that have most in common with a query: the sum of the weights of common n-grams, each multiplied by a
// factor of the sequence. The n-grams of each result don't count for the next.
#include <algorithm>
#include <cmath>

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

// Neighbours in the order begin alike: what they share is found once.
template <class T>
void find_all(const Find& p) {
    for (int64_t k = 0; k < p.places; k++) {
        const int64_t i = p.order[k], before = k ? p.order[k - 1] : i;
        int64_t first = 0, stop = p.size;
        bool same = k > 0;
        for (int64_t offset = 0; offset < p.longest; offset++) {
            const int64_t token = p.tokens[i + offset], at = offset * p.places;
            same = same && token == p.tokens[before + offset];
            first = same ? p.first[at + before] : bisect<T>(p, first, stop, offset, token);
            stop = same ? p.stop[at + before] : bisect<T>(p, first, stop, offset, token + 1);
            p.first[at + i] = first, p.stop[at + i] = stop;
        }
    }
}

// The sums of the weights of a query's n-grams.
struct Sums {
    int64_t touched = 0;  // sequences whose sum isn't 0
    float most = 0;  // the largest, without the excluded sequence
    int32_t leader = -1;  // whose it is
};

// Add the weight of an n-gram; note the sequences whose sum was 0.
void add(const Nearest& p, int64_t gram, int64_t excluded, Sums& added) {
    const uint32_t length = uint32_t(p.lengths[gram]);
    const float weight = p.weights[gram];
    for (int64_t i = p.first[gram]; i < p.stop[gram]; i++) {
        if ((p.entries[i] & REPEATED) >= length) continue;
        const int32_t owner = p.owners[i];
        const float before = p.sums[owner], sum = before + weight;
        if (before == 0 && added.touched < p.sequences) p.touched[added.touched++] = owner;
        p.sums[owner] = sum;
        if (sum > added.most && owner != excluded) added.most = sum, added.leader = owner;
    }
}

template <class T>
bool has(const Nearest& p, int64_t gram, int64_t sequence) {
    const T* text = static_cast<const T*>(p.text);
    const int64_t from = p.entries[p.first[gram]] >> BITS, length = p.lengths[gram];
    if (from + length > p.size) return false;
    const T *wanted = text + from, *stop = text + p.starts[sequence + 1] - length;
    for (const T* at = text + p.starts[sequence]; at <= stop; at++) {
        int64_t equal = 0;
        while (equal < length && at[equal] == wanted[equal]) equal++;
        if (equal == length) return true;
    }
    return false;
}

// The sum of a sequence, rounded in the order of the n-grams.
template <class T>
float whole(const Nearest& p, int64_t row, int64_t sequence) {
    float sum = 0;
    for (int64_t g = p.row[row]; g < p.row[row + 1]; g++)
        if (p.grams[g] >= 0 && has<T>(p, p.grams[g], sequence)) sum += p.scales[sequence] * p.weights[p.grams[g]];
    return sum;
}

// The first sequence of the largest whole sum, or -1. Since its factor is at most the reciprocal root of the sum of the squares of its weights, a sequence of k
// n-grams has at most sqrt(k) (Cauchy and Schwarz). Rare n-grams come first; as soon as a sequence has more than the others can give, they are left out, and the
// sequences that may have the largest sum are compared with the query (Turtle and Flood 1995, "Query evaluation: strategies and optimizations").
template <class T>
int64_t largest(const Nearest& p, int64_t row) {
    const int64_t excluded = p.excluded[row];
    int64_t* end = p.rarest;
    double left = 0;  // the weights of the n-grams that are left out
    for (int64_t g = p.row[row]; g < p.row[row + 1]; g++)
        if (p.grams[g] >= 0) *end++ = p.grams[g], left += p.weights[p.grams[g]];
    std::sort(p.rarest, end, [&](int64_t a, int64_t b) { return p.stop[a] - p.first[a] < p.stop[b] - p.first[b]; });

    Sums sums;
    const double rounded = 1 - 1e-6 * double(end - p.rarest + 4);
    double enough = 0;  // the largest whole sum is at least that
    int64_t leader = -1;
    for (int64_t* next = p.rarest; next < end && std::sqrt(double(end - next)) >= enough; next++) {
        add(p, *next, excluded, sums), left -= p.weights[*next];
        if (sums.leader == leader) continue;
        leader = sums.leader, enough = std::max(enough, whole<T>(p, row, leader) * rounded);
    }

    float most = 0;
    int64_t best = -1;
    for (int64_t t = 0; t < sums.touched; t++) {
        const int64_t owner = p.touched[t];
        const double possible = (p.sums[owner] + left) * p.scales[owner];
        p.sums[owner] = 0;
        if (owner == excluded || possible < enough) continue;
        const float sum = whole<T>(p, row, owner);
        if (sum > most || (sum == most && sum > 0 && owner < best)) most = sum, best = owner;
        enough = std::max(enough, sum * rounded);
    }
    return best;
}

template <class T>
void nearest_all(const Nearest& p) {
    for (int64_t r = 0; r < p.rows; r++)
        for (int64_t k = 0; k < p.count; k++) {
            const int64_t best = p.best[r * p.count + k] = largest<T>(p, r);
            for (int64_t g = p.row[r]; g < p.row[r + 1]; g++)
                if (p.grams[g] >= 0 && best >= 0 && has<T>(p, p.grams[g], best)) p.grams[g] = -1;
        }
}

}  // namespace

Status find(const Find& p, int32_t) {
    if (p.width == 1) find_all<uint8_t>(p);
    else if (p.width == 2) find_all<uint16_t>(p);
    else if (p.width == 4) find_all<uint32_t>(p);
    else find_all<uint64_t>(p);
    return DONE;
}

Status nearest(const Nearest& p, int32_t) {
    if (p.width == 1) nearest_all<uint8_t>(p);
    else if (p.width == 2) nearest_all<uint16_t>(p);
    else if (p.width == 4) nearest_all<uint32_t>(p);
    else nearest_all<uint64_t>(p);
    return DONE;
}

}  // namespace regard
