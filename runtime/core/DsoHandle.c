// Defines the handle with which destructors of static objects are registered. The handle is usually
// in the compiler's crtbegin.o, which is missing if a program is linked by a linker without a
// compiler.
extern void *__dso_handle __attribute__((visibility("hidden")));
void *__dso_handle = &__dso_handle;
