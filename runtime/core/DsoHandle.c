// The handle that destructors of static objects are registered with. A compiler's crtbegin.o has it;
// a program that a linker alone links has no such file.
extern void *__dso_handle __attribute__((visibility("hidden")));
void *__dso_handle = &__dso_handle;
