/* What the loops of every width share: programs, matrices, jobs. */

typedef struct {
    int32_t op, out, a, b, c, d, k, l;
} Step;

/* The array a program arrives as: these numbers, then (register, constant) pairs that hold throughout,
 * then the steps. */
typedef struct {
    int32_t steps, registers, inputs, pins, outputs[4];
} Head;

typedef struct {
    const Head *head;
    const Step *steps;
    const float *constants;
    float *memory, *reg[REGISTERS];
} Machine;

typedef struct {
    const int32_t *steps;
    const float *constants;
} Code;

typedef struct {
    int count;
    const float *column[COLUMNS];
    long size[COLUMNS];
} Columns;

typedef struct {
    long n;
    const void *scores; /* 4 bytes each, or 2 (bfloat16) */
    int narrow;
} Scores;

typedef struct {
    int kind; /* DENSE_BITS, DENSE_SOFT or SPARSE */
    long n;
    const uint8_t *bits;
    const float *values; /* dense, or of stored entries; NULL where all of them are on */
    const int64_t *starts;
    const int32_t *columns;
} Labels;

typedef struct {
    Scores v;
    Labels y;
    Code off, both;
    Columns columns;
    long entries;
    void *gradient;
    float scale;
    double *sums;
    int64_t *unknown;
} Separable;

typedef struct {
    Machine off, both;
    int wrong;                /* whether a label outside [0, 1] was met */
    long cursor, reached;     /* the stored entry to look at next, and where blocks have come to */
    long pending, place[BLOCK];
    int32_t at[BLOCK];
    float on[BLOCK], pending_on[BLOCK], weight[BLOCK], value[BLOCK], slope[BLOCK], copy[BLOCK];
} Desk;

typedef struct {
    Scores v;
    Labels y;
    Code off, both; /* yes, and no where it is wanted everywhere; both; or their slopes in `off` */
    Columns columns;
    int by_row, no; /* whether `off` has a second result */
    long rows, tall, wide;
    double *sums;
    const float *factors;
    void *gradient;
} Confusion;

typedef struct {
    double m, s;
} Level;

typedef struct {
    Level ons, offs;
    double sum, on, unknown;
} RowSums;

typedef struct {
    Scores v;
    Labels y;
    float a, b;
    int by_row, by_column;
    long rows, tall, wide;
    RowSums *row_sums;
    float *columns;
} Ways;

typedef struct {
    Scores v;
    Labels y;
    float a, b;
    long rows;
    const float *row, *column;
    void *gradient;
} Returns;
