// The interface as text, one line for each entry, from which Python makes its side of it.
#include "library/export.h"

EXPORT const char* regard_interface() {
    return
#define VALUES(name, ...) "values|" #name "|" #__VA_ARGS__ "\n"
#define CONSTANT(name, number) "constant|" #name "|" #number "\n"
#define STRUCT(name) "struct|" #name "|\n"
#define FIELD(type, ...) "field|" #type "|" #__VA_ARGS__ "\n"
#define METHOD(...)
#define END
#define FUNCTION(name, Struct) "function|" #name "|" #Struct "\n"
#define TRAINING(name, Struct, bytes) "function|" #name "|" #Struct "\n"
#include "core/interface.inc"
        ;
}
