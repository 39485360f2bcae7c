// A search with a plain decoder, step after step: what seq2seq/search.py says of a beam, for rows of float32.
//
// Rows are the hypotheses that go on, those of a sentence side by side. A step gathers what its words give and the states
// they come from, takes a step of the recurrence, and asks for the likeliest words; then every sentence chooses among them
// by itself. A row never depends on other sentences' rows.
#include "core/tails.h"

#include <algorithm>

namespace regard {
namespace ISA {

int64_t recurrence_scratch(const Recurrence& p);                     // recurrence.cpp
void recur(const Recurrence& p, bool backward, char* scratch);
void multiply(const Product& p, char* scratch);                      // matrix.cpp
void tops(const Tops& p, char* scratch);                             // output_layer.cpp

class Find {
    struct Hypothesis {
        int64_t sentence, word, parent;  // its last word, and its row before that
        double sum, log;                 // log-probabilities: of all its words, of the last
    };
    struct Candidate {
        double total;
        int64_t place;  // row of the sentence, rank of the word
    };

    Search& p;
    char* const scratch;
    Room room;
    const int64_t h, given_size, count, most_rows;  // count: words asked for after each row
    char* kept;
    float *table, *given, *start, *states, *between, *gates, *after_gates, *queries, *contexts, *readout, *best, *found;
    uint8_t* known;  // words whose row of the table is there
    int64_t *sentences, *places, *unknown;
    Hypothesis *now, *next;
    Candidate* candidates;
    double* bars;  // what a further sentence must score

   public:
    Find(Search& p, char* scratch)
        : p(p), scratch(scratch), room{p.room}, h(p.decoder.size), given_size(3 * h + p.size),
          // One may be the end, all others that are kept may follow one row.
          count(p.width == 1 ? 1 : std::min(p.width + 1, p.words)),
          most_rows(p.decoder.sentences * p.width) {
        const int64_t kept_gates = 4 * width_of<float>(h) + 64;
        sentences = room.take<int64_t>(most_rows), unknown = room.take<int64_t>(most_rows);
        kept = room.take<char>(recurrence_scratch(decoder(most_rows)));
        table = room.take<float>(p.words * given_size), known = room.take<uint8_t>(p.words);
        given = rows_of(given_size), contexts = rows_of(given_size), readout = rows_of(p.size);
        start = rows_of(h), states = rows_of(h), between = rows_of(h);
        gates = rows_of(kept_gates), after_gates = p.decoder.after_weight ? rows_of(kept_gates) : nullptr;
        queries = rows_of(p.decoder.hidden), best = rows_of(count), found = rows_of(2);
        places = room.take<int64_t>(most_rows * count);
        now = room.take<Hypothesis>(most_rows), next = room.take<Hypothesis>(most_rows);
        candidates = room.take<Candidate>(p.width * count), bars = room.take<double>(p.decoder.sentences);
    }
    int64_t bytes() const { return room.at - p.room; }

    // Go on while there are rows, and room for them. Returns whether all numbers were finite.
    bool run() {
        if (p.step == 0) begin();
        p.steps_taken = 0;
        for (int64_t used = 0; p.rows > 0 && used + p.rows <= p.capacity; p.step++) {
            p.taken[p.steps_taken++] = p.rows;
            look(used);
            used += p.rows;
            if (!choose()) return false;
        }
        return true;
    }

   private:
    float* rows_of(int64_t numbers) { return room.take<float>(most_rows * numbers); }

    Recurrence decoder(int64_t rows) const {
        Recurrence one = p.decoder;
        one.steps = 1, one.batch = rows, one.sentence = sentences;
        return one;
    }

    void begin() {
        memset(known, 0, p.words);
        p.rows = p.decoder.sentences;
        memcpy(states, p.decoder.start, p.rows * h * sizeof(float));
        for (int64_t s = 0; s < p.rows; s++) now[s] = {s, p.begin, s, 0, 0}, bars[s] = -INF<double>, p.ended[s] = 0;
    }

    // One step of all rows: their states, and the likeliest words after them.
    void look(int64_t used) {
        read();
        for (int64_t r = 0; r < p.rows; r++) {
            const Hypothesis& x = now[r];
            sentences[r] = x.sentence;
            p.said[used + r] = x.word, p.parents[used + r] = x.parent, p.logs[used + r] = x.log;
            memcpy(start + r * h, states + x.parent * h, h * sizeof(float));
        }
        Recurrence one = decoder(p.rows);
        one.start = start, one.states = states, one.state_row = h, one.inputs = given, one.input_row = given_size;
        one.gates = gates, one.after_gates = after_gates, one.between = between, one.queries = queries;
        one.contexts = contexts, one.weights = p.looks + used * one.positions, one.warm = p.step > 0;
        recur(one, false, kept);
        for (int64_t r = 0; r < p.rows; r++) {
            const float *of_word = given + r * given_size + 3 * h, *seen = contexts + r * given_size + 3 * h;
            for (int64_t c = 0; c < p.size; c += UNITS)
                store_first(readout + r * p.size + c, load_first(of_word + c, p.size - c) + load_first(seen + c, p.size - c),
                            p.size - c);
        }
        multiply({p.rows, h, p.size, h, 1, p.size, 1, p.size, states, p.readout_weight, nullptr, readout, nullptr,
                             true, TANH}, scratch);
        tops({p.rows, p.words, p.size, count, p.begin + 1, nullptr, readout, p.output_weight, p.output_bias, best, found,
              places},
             scratch);
    }

    // What the rows' words give to gates and readout; computed when a word is first said.
    void read() {
        int64_t fresh = 0;
        float *embedded = readout, *made = contexts;
        for (int64_t r = 0; r < p.rows; r++) {
            const int64_t word = now[r].word;
            if (known[word]) continue;
            known[word] = true, unknown[fresh] = word;
            memcpy(embedded + fresh++ * p.size, p.embedding + word * p.size, p.size * sizeof(float));
        }
        if (fresh)
            multiply({fresh, p.size, given_size, p.size, 1, given_size, 1, given_size, embedded, p.word_weight,
                                 p.word_bias, made, nullptr, false, 0}, scratch);
        for (int64_t i = 0; i < fresh; i++)
            memcpy(table + unknown[i] * given_size, made + i * given_size, given_size * sizeof(float));
        for (int64_t r = 0; r < p.rows; r++)
            memcpy(given + r * given_size, table + now[r].word * given_size, given_size * sizeof(float));
    }

    bool choose() {
        int64_t grown = 0;
        for (int64_t first = 0, last; first < p.rows; first = last) {
            for (last = first; last < p.rows && now[last].sentence == now[first].sentence;) last++;
            const int64_t some = candidates_of(first, last);
            if (some < 0) return false;
            finish(first, some);
            grown = go_on(first, some, grown);
        }
        std::swap_ranges(now, now + grown, next);
        p.rows = grown;
        return true;
    }

    // The best continuations of a sentence's rows, falling; of equals the first row's, then the smaller word. -1 where
    // a number is not finite.
    int64_t candidates_of(int64_t first, int64_t last) {
        int64_t n = 0;
        for (int64_t r = first; r < last; r++) {
            const double largest = found[2 * r], all_words = std::log(double(found[2 * r + 1])) + largest;
            if (!std::isfinite(all_words)) return p.wrong = std::isfinite(largest) ? all_words : largest, -1;
            for (int64_t i = 0; i < count; i++) {
                const double total = double(best[r * count + i]) + (now[r].sum - all_words);
                if (total > -INF<double>) candidates[n++] = {total, (r - first) * count + i};
            }
        }
        const int64_t some = std::min(n, 2 * p.width);  // half of them may be ends
        std::partial_sort(candidates, candidates + some, candidates + n, [](const Candidate& a, const Candidate& b) {
            return a.total > b.total || (a.total == b.total && a.place < b.place);
        });
        return some;
    }

    double divisor(int64_t length) const { return std::pow((p.offset + length) / (p.offset + 1), p.penalty); }
    int64_t word_of(int64_t first, const Candidate& x) const { return places[first * count + x.place]; }
    Hypothesis after(int64_t first, const Candidate& x) const {
        const int64_t row = first + x.place / count;
        const double sum = std::min(x.total, 0.0);
        return {now[row].sentence, word_of(first, x), row, sum, sum - now[row].sum};
    }

    // Keep what ends among the best, where it is one of the best sentences so far.
    void finish(int64_t first, int64_t some) {
        for (int64_t i = 0; i < std::min(some, p.width); i++) {
            if (word_of(first, candidates[i]) != p.end) continue;
            const Hypothesis x = after(first, candidates[i]);
            if (const double score = x.sum / divisor(p.step + 1); score > bars[x.sentence]) keep(x, score);
        }
    }

    // Put an ending at its place among the best of its sentence; equal ones stay before it.
    void keep(const Hypothesis& x, double score) {
        Ending* const best_of = p.endings + x.sentence * p.n_best;
        int64_t& ended = p.ended[x.sentence];
        int64_t i = ended < p.n_best ? ended++ : p.n_best - 1;
        for (; i > 0 && best_of[i - 1].score < score; i--) best_of[i] = best_of[i - 1];
        best_of[i] = {score, x.log, p.step, x.parent, x.word};
        if (ended == p.n_best) bars[x.sentence] = best_of[ended - 1].score;
    }

    // The best continuations become rows, if they can still become one of the best sentences.
    int64_t go_on(int64_t first, int64_t some, int64_t grown) {
        const int64_t sentence = now[first].sentence, begun = grown;
        const double longest = divisor(p.most[sentence]);
        for (int64_t i = 0; i < some && grown - begun < p.width; i++) {
            const Hypothesis x = after(first, candidates[i]);
            if (x.word != p.end && x.sum / longest > bars[sentence]) next[grown++] = x;
        }
        if (grown > begun && p.step + 1 < p.most[sentence]) return grown;
        if (p.ended[sentence] == 0) {  // broken off
            const Hypothesis x = grown > begun ? next[begun] : Hypothesis{sentence, -1, first, 0, 0};
            p.endings[sentence * p.n_best] = {std::numeric_limits<double>::quiet_NaN(), x.log, p.step, x.parent, x.word};
            p.ended[sentence] = 1;
        }
        return begun;
    }
};

int64_t search_room(const Search& p) {
    Search none = p;
    none.room = reinterpret_cast<char*>(64);  // nobody goes there
    return Find(none, nullptr).bytes();
}
bool search(Search& p, char* scratch) { return Find(p, scratch).run(); }

}  // namespace ISA
}  // namespace regard
