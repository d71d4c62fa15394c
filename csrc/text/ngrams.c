/* labelset.encode._ngrams: n-grams of words, and of characters inside words, counted and weighed.
 *
 * Texts are cut as scikit-learn's analyzers "word" and "char_wb" cut them, by Python's own tables of
 * letters and blanks. Texts come in small letters, as strings, and are read where Python keeps them;
 * terms are UTF-8, whose order is that of the alphabet. The interpreter's lock is released, so threads
 * run side by side. encode/_terms.py has checked what arrives here. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "strings.h"

#define SHORT 64 /* bytes of a word whose n-grams are remembered */
#define REMEMBERED ((size_t)1 << 22) /* n-grams of such words, until all are forgotten */
#define RADIX 11
#define LOGARITHMS 256
#define CAPSULE "labelset.ngrams"

typedef struct {
    const void *letters;
    Py_ssize_t length;
    int kind; /* bytes of a letter */
} Text;

/* What one thread works with. A few words make up most of any language, so the terms of a word are
 * looked up once: most of the work is adding up numbers that are remembered. */
typedef struct {
    Strings words; /* words met before */
    size_t *first; /* (words + 1,): where the terms of each begin */
    int32_t *remembered;
    uint32_t *counts; /* of each term in the text at hand */
    int32_t *row, *spare; /* the terms in it, each once */
    Byte *letters; /* the word at hand, or all words of the text with a blank between them */
    size_t *starts; /* of its characters, or of the words */
    size_t first_room, remembered_room, counts_room, row_room, spare_room, letters_room, starts_room;
    size_t distinct;
} Scratch;

typedef struct {
    Strings terms;
    int characters, grows; /* kind of term; whether new ones are added */
    Py_ssize_t low, high; /* n of the n-grams */
    int64_t *in_texts, *in_all; /* of each term: texts that have it; how often it occurs */
    size_t in_texts_room, in_all_room;
    Scratch *idle[64];
    int idle_count;
} Table;

static double logarithms[LOGARITHMS];

/* ---- one text to the numbers of its terms ---- */

static inline int is_of_word(Py_UCS4 c) { return Py_UNICODE_ISALNUM(c) || c == '_'; }

static inline size_t encode(Byte *to, Py_UCS4 c) {
    if (c < 0x80) return to[0] = (Byte)c, 1;
    if (c < 0x800) return to[0] = (Byte)(0xc0 | c >> 6), to[1] = (Byte)(0x80 | (c & 63)), 2;
    size_t size = c < 0x10000 ? 3 : 4;
    to[0] = (Byte)(size == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
    if (size == 4) to[1] = (Byte)(0x80 | (c >> 12 & 63));
    to[size - 2] = (Byte)(0x80 | (c >> 6 & 63)), to[size - 1] = (Byte)(0x80 | (c & 63));
    return size;
}

static int room_for_terms(Table *t, Scratch *s) {
    size_t before = s->counts_room, count = (size_t)t->terms.count;
    if (!RESERVE(s->counts, s->counts_room, count) || !RESERVE(s->row, s->row_room, count) ||
        !RESERVE(s->spare, s->spare_room, count))
        return 0;
    for (; before < s->counts_room; before++) s->counts[before] = 0;
    if (!t->grows) return 1;
    before = t->in_texts_room;
    if (!RESERVE(t->in_texts, t->in_texts_room, count) || !RESERVE(t->in_all, t->in_all_room, count))
        return 0;
    for (; before < t->in_texts_room; before++) t->in_texts[before] = t->in_all[before] = 0;
    return 1;
}

static inline void add(Scratch *s, int32_t term) {
    if (!s->counts[term]++) s->row[s->distinct++] = term;
}

/* One more term of the text; one that is not known is passed over, or is new. */
static inline int add_letters(Table *t, Scratch *s, size_t start, size_t end, int remember) {
    const Byte *p = s->letters + start;
    size_t size = end - start;
    int32_t term;
    if (t->grows) {
        int32_t before = t->terms.count;
        term = numbered(&t->terms, p, size);
        if (term < 0 || (t->terms.count > before && !room_for_terms(t, s))) return 0;
    } else {
        term = place_of(&t->terms, p, size, hashed(p, size))->number;
        if (term < 0) return 1;
    }
    add(s, term);
    if (remember) {
        size_t *end_of_word = s->first + s->words.count;
        if (!RESERVE(s->remembered, s->remembered_room, *end_of_word + 1)) return 0;
        s->remembered[(*end_of_word)++] = term;
    }
    return 1;
}

/* `length` characters between blanks, the blanks among them, of which s->starts says where they are. */
static int add_word(Table *t, Scratch *s, Py_ssize_t length) {
    size_t size = s->starts[length];
    int remember = size <= SHORT;
    if (remember) {
        if (s->first[s->words.count] > REMEMBERED) forget_strings(&s->words);
        int32_t before = s->words.count, word = numbered(&s->words, s->letters, size);
        if (word < 0 || !RESERVE(s->first, s->first_room, (size_t)s->words.count + 1)) return 0;
        if (s->words.count == before) {
            for (size_t at = s->first[word]; at < s->first[word + 1]; at++) add(s, s->remembered[at]);
            return 1;
        }
        s->first[word + 1] = s->first[word];
    }
    for (Py_ssize_t n = t->low; n <= t->high; n++) {
        if (length <= n) return add_letters(t, s, 0, size, remember); /* a short word counts once */
        for (Py_ssize_t at = 0; at + n <= length; at++)
            if (!add_letters(t, s, s->starts[at], s->starts[at + n], remember)) return 0;
    }
    return 1;
}

static int add_characters(Table *t, Scratch *s, const Text *text) {
    for (Py_ssize_t at = 0; at < text->length;) {
        Py_UCS4 c = PyUnicode_READ(text->kind, text->letters, at);
        if (Py_UNICODE_ISSPACE(c)) {
            at++;
            continue;
        }
        Py_ssize_t length = 1;
        size_t size = 1;
        s->letters[0] = ' ', s->starts[0] = 0;
        for (; at < text->length; at++, length++) {
            c = PyUnicode_READ(text->kind, text->letters, at);
            if (Py_UNICODE_ISSPACE(c)) break;
            if (!RESERVE(s->letters, s->letters_room, size + 8) ||
                !RESERVE(s->starts, s->starts_room, (size_t)length + 4))
                return 0;
            s->starts[length] = size;
            size += encode(s->letters + size, c);
        }
        s->letters[size] = ' ', s->starts[length] = size, s->starts[length + 1] = size + 1;
        if (!add_word(t, s, length + 1)) return 0;
    }
    return 1;
}

static int add_words(Table *t, Scratch *s, const Text *text) {
    Py_ssize_t words = 0;
    size_t size = 0;
    for (Py_ssize_t at = 0; at < text->length; at++) {
        if (!is_of_word(PyUnicode_READ(text->kind, text->letters, at))) continue;
        size_t start = size;
        Py_ssize_t first = at;
        for (; at < text->length; at++) {
            Py_UCS4 c = PyUnicode_READ(text->kind, text->letters, at);
            if (!is_of_word(c)) break;
            if (!RESERVE(s->letters, s->letters_room, size + 8)) return 0;
            size += encode(s->letters + size, c);
        }
        if (at - first < 2) { /* as if it were not there */
            size = start;
            continue;
        }
        if (!RESERVE(s->starts, s->starts_room, (size_t)words + 1)) return 0;
        s->starts[words++] = start;
        for (Py_ssize_t n = t->low; n <= t->high && n <= words; n++)
            if (!add_letters(t, s, s->starts[words - n], size, 0)) return 0;
        s->letters[size++] = ' ';
    }
    return 1;
}

/* Of a table that grows only the terms that more texts have, at most half of `most`. */
static int forget_rare(Table *t, Scratch *s, size_t most) {
    size_t count = (size_t)t->terms.count, kept = count;
    Byte *stays = malloc(count + 1);
    if (!stays) return 0;
    for (int64_t rare = 1; kept > most / 2; rare *= 2) {
        kept = 0;
        for (size_t i = 0; i < count; i++) kept += stays[i] = t->in_texts[i] > rare;
    }
    keep_strings(&t->terms, stays);
    for (size_t i = 0, to = 0; i < count; i++) {
        int64_t in_texts = t->in_texts[i], in_all = t->in_all[i];
        t->in_texts[i] = t->in_all[i] = 0;
        if (stays[i]) t->in_texts[to] = in_texts, t->in_all[to++] = in_all;
    }
    free(stays);
    forget_strings(&s->words); /* which knows their terms by the old numbers */
    return 1;
}

static int add_text(Table *t, Scratch *s, const Text *text) {
    s->distinct = 0;
    return t->characters ? add_characters(t, s, text) : add_words(t, s, text);
}

/* ---- what a thread works with, and who owns it ---- */

static void free_scratch(Scratch *s) {
    free_strings(&s->words);
    free(s->first), free(s->remembered), free(s->counts), free(s->row), free(s->spare);
    free(s->letters), free(s->starts), free(s);
}

/* With the interpreter's lock; NULL where there is no memory. */
static Scratch *take_scratch(Table *t) {
    if (t->idle_count) return t->idle[--t->idle_count];
    Scratch *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (make_strings(&s->words) && RESERVE(s->first, s->first_room, 4096) &&
        RESERVE(s->letters, s->letters_room, 256) && RESERVE(s->starts, s->starts_room, 256) &&
        room_for_terms(t, s)) {
        s->first[0] = 0;
        return s;
    }
    free_scratch(s);
    return NULL;
}

static void give_scratch(Table *t, Scratch *s) {
    if (t->idle_count < 64) t->idle[t->idle_count++] = s;
    else free_scratch(s);
}

static void free_table(Table *t) {
    for (int i = 0; i < t->idle_count; i++) free_scratch(t->idle[i]);
    free_strings(&t->terms);
    free(t->in_texts), free(t->in_all), free(t);
}

static void free_capsule(PyObject *capsule) { free_table(PyCapsule_GetPointer(capsule, CAPSULE)); }

static Text *take_texts(PyObject *list, Py_ssize_t *count) {
    *count = PyList_GET_SIZE(list);
    Text *texts = malloc(sizeof *texts * (size_t)(*count + 1));
    if (!texts) return (Text *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *count; i++) {
        PyObject *text = PyList_GET_ITEM(list, i);
        if (!PyUnicode_Check(text)) {
            PyErr_Format(PyExc_TypeError, "text %zd must be a string, got %s", i, Py_TYPE(text)->tp_name);
            free(texts);
            return NULL;
        }
        texts[i] = (Text){PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text), (int)PyUnicode_KIND(text)};
    }
    return texts;
}

static PyObject *array_of(const void *from, size_t count, size_t size) {
    return PyByteArray_FromStringAndSize(from, (Py_ssize_t)(count * size));
}

/* ---- functions ---- */

/* table(characters, low, high, letters, starts): of n-grams of words or characters, n from low to high.
 * 
 * Those given by letters and where each starts are all; without starts, new ones are added as texts have them. */
static PyObject *table(PyObject *self, PyObject *args) {
    Table *t = calloc(1, sizeof *t);
    Py_buffer letters, starts;
    if (!t) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "pnny*y*", &t->characters, &t->low, &t->high, &letters, &starts)) {
        free(t);
        return NULL;
    }
    const int64_t *start = starts.buf;
    Py_ssize_t count = starts.len / (Py_ssize_t)sizeof *start - 1;
    int fine = make_strings(&t->terms), twice = 0;
    for (Py_ssize_t i = 0; fine && !twice && i < count; i++) {
        const Byte *first = (const Byte *)letters.buf + start[i];
        int32_t number = numbered(&t->terms, first, (size_t)(start[i + 1] - start[i]));
        fine = number >= 0, twice = fine && number < i;
    }
    PyBuffer_Release(&letters), PyBuffer_Release(&starts);
    t->grows = count < 0;
    PyObject *capsule = fine && !twice ? PyCapsule_New(t, CAPSULE, free_capsule) : NULL;
    if (capsule) return capsule;
    free_table(t);
    if (twice) PyErr_SetString(PyExc_ValueError, "a term is listed twice");
    else if (!fine) PyErr_NoMemory();
    return NULL;
}

/* count(table, texts, most): adds their terms to a table that grows; of more than `most` the rarest are
 * forgotten. */
static PyObject *count(PyObject *self, PyObject *args) {
    PyObject *capsule, *list;
    Py_ssize_t rows, most;
    if (!PyArg_ParseTuple(args, "OO!n", &capsule, &PyList_Type, &list, &most)) return NULL;
    Table *t = PyCapsule_GetPointer(capsule, CAPSULE);
    Text *texts = t ? take_texts(list, &rows) : NULL;
    if (!texts) return NULL;
    Scratch *s = take_scratch(t);
    int fine = s != NULL;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; fine && row < rows; row++) {
        fine = add_text(t, s, texts + row);
        for (size_t i = 0; fine && i < s->distinct; i++) {
            int32_t term = s->row[i];
            t->in_texts[term]++, t->in_all[term] += s->counts[term], s->counts[term] = 0;
        }
        if (fine && t->terms.count > most) fine = forget_rare(t, s, (size_t)most);
    }
    Py_END_ALLOW_THREADS
    free(texts);
    if (fine) give_scratch(t, s);
    else if (s) free_scratch(s);
    if (!fine) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

typedef struct {
    uint64_t head; /* the first letters, as a number that rises with the alphabet */
    const Byte *letters;
    size_t size;
    int64_t in_all;
    int32_t number;
} Term;

static int by_alphabet(const void *one, const void *other) {
    const Term *a = one, *b = other;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    int order = memcmp(a->letters, b->letters, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int by_frequency(const void *one, const void *other) {
    const Term *a = one, *b = other;
    if (a->in_all != b->in_all) return a->in_all > b->in_all ? -1 : 1;
    return by_alphabet(one, other);
}

/* terms(table, least, most): letters, starts and number of texts of those in at least `least` texts,
 * in the order of the alphabet; of more than `most` those that occur most often. */
static PyObject *terms(PyObject *self, PyObject *args) {
    PyObject *capsule;
    long long least;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "OLn", &capsule, &least, &most)) return NULL;
    Table *t = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!t) return NULL;
    size_t kept = 0, all = (size_t)t->terms.count, size = 0;
    for (size_t i = 0; i < all; i++) kept += t->in_texts[i] >= least;
    Term *list = malloc(sizeof *list * (kept + 1));
    if (!list) return PyErr_NoMemory();
    PyObject *letters = NULL, *starts = NULL, *in_texts = NULL;
    Py_BEGIN_ALLOW_THREADS
    kept = 0;
    for (size_t i = 0; i < all; i++) {
        if (t->in_texts[i] < least) continue;
        Term term = {0, t->terms.letters + t->terms.starts[i], t->terms.starts[i + 1] - t->terms.starts[i],
                     t->in_all[i], (int32_t)i};
        for (size_t byte = 0; byte < 8; byte++)
            term.head = term.head << 8 | (byte < term.size ? term.letters[byte] : 0);
        list[kept++] = term;
    }
    if (kept > (size_t)most) {
        qsort(list, kept, sizeof *list, by_frequency);
        kept = (size_t)most;
    }
    qsort(list, kept, sizeof *list, by_alphabet);
    for (size_t i = 0; i < kept; i++) size += list[i].size;
    Py_END_ALLOW_THREADS
    letters = array_of(NULL, size, 1);
    starts = array_of(NULL, kept + 1, sizeof(int64_t)), in_texts = array_of(NULL, kept, sizeof(int64_t));
    if (letters && starts && in_texts) {
        Byte *to = (Byte *)PyByteArray_AS_STRING(letters);
        int64_t *start = (int64_t *)PyByteArray_AS_STRING(starts);
        int64_t *often = (int64_t *)PyByteArray_AS_STRING(in_texts);
        start[0] = 0;
        for (size_t i = 0; i < kept; i++) {
            memcpy(to + start[i], list[i].letters, list[i].size);
            start[i + 1] = start[i] + (int64_t)list[i].size, often[i] = t->in_texts[list[i].number];
        }
    }
    free(list);
    PyObject *made = letters && starts && in_texts ? PyTuple_Pack(3, letters, starts, in_texts) : NULL;
    Py_XDECREF(letters), Py_XDECREF(starts), Py_XDECREF(in_texts);
    return made;
}

/* s->row in rising order: few by insertion, many some bits at a time. */
static void sort_row(Scratch *s, int32_t limit) {
    size_t size = s->distinct;
    if (size <= 32) {
        for (size_t i = 1; i < size; i++) {
            int32_t moving = s->row[i];
            size_t at = i;
            for (; at && s->row[at - 1] > moving; at--) s->row[at] = s->row[at - 1];
            s->row[at] = moving;
        }
        return;
    }
    for (int shift = 0; limit >> shift; shift += RADIX) {
        size_t next[1 << RADIX] = {0}, at = 0;
        for (size_t i = 0; i < size; i++) next[s->row[i] >> shift & ((1 << RADIX) - 1)]++;
        for (int digit = 0; digit < 1 << RADIX; digit++) {
            size_t here = next[digit];
            next[digit] = at, at += here;
        }
        for (size_t i = 0; i < size; i++)
            s->spare[next[s->row[i] >> shift & ((1 << RADIX) - 1)]++] = s->row[i];
        int32_t *other = s->row;
        s->row = s->spare, s->spare = other;
        size_t room = s->row_room;
        s->row_room = s->spare_room, s->spare_room = room;
        if (shift + RADIX > 30) break;
    }
}

typedef struct {
    int32_t *columns;
    float *values;
    size_t size, columns_room, values_room;
} Rows;

/* The terms of the text at hand as columns from `first` on, of length 1 together. */
static int write_row(Rows *out, Table *t, Scratch *s, const float *idf, int32_t first, int sublinear) {
    sort_row(s, t->terms.count);
    size_t end = out->size + s->distinct;
    if (!RESERVE(out->columns, out->columns_room, end) || !RESERVE(out->values, out->values_room, end))
        return 0;
    double squares = 0;
    for (size_t i = 0; i < s->distinct; i++) {
        int32_t term = s->row[i];
        uint32_t times = s->counts[term];
        double tf = !sublinear ? times : 1 + (times < LOGARITHMS ? logarithms[times] : log(times));
        squares += tf * idf[term] * tf * idf[term];
    }
    double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (size_t i = 0; i < s->distinct; i++) {
        int32_t term = s->row[i];
        uint32_t times = s->counts[term];
        double tf = !sublinear ? times : 1 + (times < LOGARITHMS ? logarithms[times] : log(times));
        out->columns[out->size + i] = first + term;
        out->values[out->size + i] = (float)(tf * idf[term] * scale);
        s->counts[term] = 0;
    }
    out->size = end;
    return 1;
}

#define KINDS 2

/* weigh(tables, idf, sublinear, texts): entries of each row, their columns and values; the columns of
 * each table come after those of the one before. */
static PyObject *weigh(PyObject *self, PyObject *args) {
    PyObject *tables, *list, *made = NULL;
    Py_buffer idf;
    int sublinear;
    Py_ssize_t rows;
    Table *t[KINDS];
    Scratch *s[KINDS] = {NULL};
    if (!PyArg_ParseTuple(args, "O!y*pO!", &PyTuple_Type, &tables, &idf, &sublinear, &PyList_Type, &list))
        return NULL;
    Py_ssize_t kinds = PyTuple_GET_SIZE(tables);
    Rows out = {0};
    Text *texts = NULL;
    int64_t *lengths = NULL;
    int fine = kinds <= KINDS;
    for (Py_ssize_t k = 0; fine && k < kinds; k++)
        fine = (t[k] = PyCapsule_GetPointer(PyTuple_GET_ITEM(tables, k), CAPSULE)) != NULL;
    if (!fine || !(texts = take_texts(list, &rows))) goto done;
    for (Py_ssize_t k = 0; fine && k < kinds; k++) fine = (s[k] = take_scratch(t[k])) != NULL;
    fine = fine && (lengths = malloc(sizeof *lengths * (size_t)(rows + 1))) != NULL;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; fine && row < rows; row++) {
        size_t before = out.size;
        int32_t first = 0;
        for (Py_ssize_t k = 0; fine && k < kinds; k++) {
            fine = add_text(t[k], s[k], texts + row) &&
                   write_row(&out, t[k], s[k], (const float *)idf.buf + first, first, sublinear);
            first += t[k]->terms.count;
        }
        lengths[row] = (int64_t)(out.size - before);
    }
    Py_END_ALLOW_THREADS
    for (Py_ssize_t k = 0; k < kinds; k++) {
        if (fine) give_scratch(t[k], s[k]);
        else if (s[k]) free_scratch(s[k]);
    }
    if (!fine) {
        PyErr_NoMemory();
        goto done;
    }
    PyObject *each = array_of(lengths, (size_t)rows, sizeof *lengths);
    PyObject *columns = array_of(out.columns, out.size, sizeof *out.columns);
    PyObject *values = array_of(out.values, out.size, sizeof *out.values);
    if (each && columns && values) made = PyTuple_Pack(3, each, columns, values);
    Py_XDECREF(each), Py_XDECREF(columns), Py_XDECREF(values);
done:
    PyBuffer_Release(&idf);
    free(texts), free(lengths), free(out.columns), free(out.values);
    return made;
}

static PyMethodDef methods[] = {
    {"table", table, METH_VARARGS, "A table of terms, empty or filled."},
    {"count", count, METH_VARARGS, "Count the terms of texts."},
    {"terms", terms, METH_VARARGS, "The terms that are worth keeping."},
    {"weigh", weigh, METH_VARARGS, "TF-IDF of texts."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_ngrams", "N-grams of texts.", -1, methods};
PyMODINIT_FUNC PyInit__ngrams(void) {
    PyObject *name = PyUnicode_FromString(CAPSULE);
    if (!name) return NULL;
    secret = (uint64_t)PyObject_Hash(name); /* which Python draws for each process */
    Py_DECREF(name);
    for (int times = 1; times < LOGARITHMS; times++) logarithms[times] = log(times);
    return PyModule_Create(&module);
}
