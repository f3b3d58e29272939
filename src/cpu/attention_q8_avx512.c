#if defined(__x86_64__)
#include "cpu/lanes_avx512.h"

#include "cpu/attention_q8_body.h"
#endif
