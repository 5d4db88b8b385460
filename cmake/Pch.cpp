// This file has no code. CMake compiles a precompiled header only for a target with a source file.
