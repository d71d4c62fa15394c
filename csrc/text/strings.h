/* Distinct strings of bytes, numbered as they come, and found again by a hash of open places. */

typedef unsigned char Byte;

typedef struct {
    uint32_t tag; /* bits of the hash, of which the lowest are the place where the search begins */
    int32_t number; /* -1: free */
} Place;

typedef struct {
    Byte *letters;
    size_t *starts; /* (count + 1,): where each string begins */
    Place *places; /* mask + 1 of them, at most half of them taken */
    size_t letters_room, starts_room, mask;
    int32_t count;
} Strings;

/* Room for `need` things at *array, whose contents stay; 0 where there is no memory. */
static int reserve(void **array, size_t *room, size_t need, size_t size) {
    if (need <= *room) return 1;
    size_t more = *room + *room / 2 + 64;
    if (more < need) more = need;
    void *moved = more <= SIZE_MAX / size ? realloc(*array, more * size) : NULL;
    if (!moved) return 0;
    *array = moved, *room = more;
    return 1;
}
#define RESERVE(array, room, need) reserve((void **)&(array), &(room), need, sizeof *(array))

static inline uint64_t eight(const Byte *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* The last 1 to 7 bytes as one number, which with their count says what they are. */
static inline uint64_t remaining(const Byte *p, size_t size) {
    if (size < 4) return (uint64_t)p[0] << 16 | (uint64_t)p[size / 2] << 8 | p[size - 1];
    uint32_t head, tail;
    memcpy(&head, p, 4), memcpy(&tail, p + size - 4, 4);
    return (uint64_t)head << 32 | tail;
}

static uint64_t secret; /* of this process, so that nobody can write texts whose words all collide */

static inline uint32_t hashed(const Byte *p, size_t size) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t hash = (size ^ secret) * odd;
    for (; size >= 8; p += 8, size -= 8) hash = (hash ^ eight(p)) * odd, hash ^= hash >> 32;
    if (size) hash = (hash ^ remaining(p, size)) * odd, hash ^= hash >> 32;
    hash *= odd;
    return (uint32_t)(hash >> 32);
}

/* The place of this string, or the free one where it belongs. */
static inline Place *place_of(const Strings *s, const Byte *p, size_t size, uint32_t tag) {
    for (size_t at = tag & s->mask;; at = (at + 1) & s->mask) {
        Place *place = s->places + at;
        if (place->number < 0) return place;
        if (place->tag != tag) continue;
        size_t start = s->starts[place->number];
        if (s->starts[place->number + 1] - start == size && !memcmp(s->letters + start, p, size))
            return place;
    }
}

static int make_places(Strings *s, size_t count) {
    Place *places = count <= SIZE_MAX / sizeof *places ? malloc(count * sizeof *places) : NULL;
    if (!places) return 0;
    memset(places, 255, count * sizeof *places);
    for (size_t old = 0; s->places && old <= s->mask; old++) {
        if (s->places[old].number < 0) continue;
        size_t at = s->places[old].tag & (count - 1);
        while (places[at].number >= 0) at = (at + 1) & (count - 1);
        places[at] = s->places[old];
    }
    free(s->places);
    s->places = places, s->mask = count - 1;
    return 1;
}

static int make_strings(Strings *s) {
    if (!make_places(s, 4096) || !RESERVE(s->starts, s->starts_room, 4096)) return 0;
    s->starts[0] = 0;
    return 1;
}

static void forget_strings(Strings *s) {
    memset(s->places, 255, (s->mask + 1) * sizeof *s->places);
    s->count = 0;
}

/* Only those that are to stay, numbered again in the same order. */
static void keep_strings(Strings *s, const Byte *stays) {
    size_t end = 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < s->count; i++) {
        if (!stays[i]) continue;
        size_t start = s->starts[i], size = s->starts[i + 1] - start;
        memmove(s->letters + end, s->letters + start, size);
        s->starts[kept++] = end, end += size; /* never beyond what is still to be read */
    }
    s->starts[kept] = end;
    forget_strings(s);
    for (int32_t i = 0; i < kept; i++) {
        const Byte *p = s->letters + s->starts[i];
        size_t size = s->starts[i + 1] - s->starts[i];
        uint32_t tag = hashed(p, size);
        *place_of(s, p, size, tag) = (Place){tag, s->count++};
    }
}

static void free_strings(Strings *s) { free(s->letters), free(s->starts), free(s->places); }

/* The number of a string that may be new; -1 where there is no memory for one more. */
static int32_t numbered(Strings *s, const Byte *p, size_t size) {
    uint32_t tag = hashed(p, size);
    Place *place = place_of(s, p, size, tag);
    if (place->number >= 0) return place->number;
    if (s->count == INT32_MAX) return -1;
    size_t count = (size_t)s->count, end = s->starts[count] + size;
    if (!RESERVE(s->letters, s->letters_room, end) || !RESERVE(s->starts, s->starts_room, count + 2))
        return -1;
    memcpy(s->letters + s->starts[count], p, size);
    s->starts[count + 1] = end;
    *place = (Place){tag, s->count++};
    if (count * 2 > s->mask && !make_places(s, 2 * (s->mask + 1))) return -1;
    return (int32_t)count;
}
