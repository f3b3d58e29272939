#include "cpu/lanes_generic.h"

#include "cpu/norm_body.h"
