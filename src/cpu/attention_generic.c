#include "cpu/lanes_generic.h"

#include "cpu/attention_body.h"
