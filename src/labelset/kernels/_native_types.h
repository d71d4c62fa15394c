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

/* How many steps a loss of sums has, and which of them are its value and its slopes. */
typedef struct {
    int32_t steps, outputs[5];
} RatioHead;

typedef struct {
    const RatioHead *head;
    const int32_t *steps;
    const double *numbers;
    double scale;
    int by_on;            /* whether a line counts for how much of it is on, and not once */
    long entries, stride; /* in a line; between the kinds of sums */
    double *sums, *total;
} Ratio;

typedef struct {
    Scores v;
    Labels y;
    Code off; /* yes and no, these and the slope of yes, or the slopes of both or of yes alone */
    Columns columns;
    int by_row, no; /* whether no is wanted wherever yes is */
    long rows, tall, wide;
    double *sums;
    float *factors;
    void *gradient;
    Ratio ratio;
} Confusion;

/* Sums, (6, stride), and factors, (4, stride), of rows or columns from the `first` of them on. */
typedef struct {
    long first, stride;
    double *sums;
    float *factors;
} Lines;

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
