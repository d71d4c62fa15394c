/* All loops for one width of vectors; NAME says which. */
#include "_native_functions.h"
#include "_native_program.h"
#include "_native_matrix.h"
#include "_native_labels.h"
#include "_native_separable.h"
#include "_native_confusion.h"
#include "_native_ways.h"
#include "_native_back.h"
