# Each instruction set is one file with its own flags; everything else is built for any x86-64 (or any machine at all).
if(NOT TRIREME_SANITIZE)
  set(KERNEL_FLAGS -O3 -fno-stack-protector)
else()
  set(KERNEL_FLAGS -O1) # with checks of every access -O3 takes two minutes a file
endif()
if(TRIREME_SANITIZE STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # GCC 12 stores vectors to such frames as if they were aligned to 64 bytes, which they are not (GCC bug 110027).
  list(APPEND KERNEL_FLAGS --param=asan-use-after-return=0)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_scalar.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_avx2.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS};-mavx2;-mfma;-mf16c")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_avx512.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_FLAGS};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c;-mprefer-vector-width=512")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_amx.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_FLAGS};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c;-mprefer-vector-width=512;-mamx-tile;-mamx-bf16")
else()
  list(FILTER FOLDER_SOURCES EXCLUDE REGEX "/cpu/isa_(avx2|avx512|amx)\\.c$")
endif()
