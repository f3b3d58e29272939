#include "cpu/lanes_generic.h"

#include "cpu/attention_q8_body.h"
