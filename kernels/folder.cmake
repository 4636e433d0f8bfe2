# Each instruction set is one file with its own flags; everything else is built for any x86-64 (or any machine at all).
if(NOT TRIREME_SANITIZE)
  # Frames have a fixed size, up to 900 KB: to touch each of their pages takes a twentieth of a step. Threads that run
  # kernels have a guard that no frame steps over (thread_start in base/pool.h).
  set(KERNEL_FLAGS -O3 -fno-stack-protector -fno-stack-clash-protection -Wframe-larger-than=1048576)
else()
  set(KERNEL_FLAGS -O1) # with checks of every access -O3 takes two minutes a file
endif()
if(TRIREME_SANITIZE STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # GCC 12 stores vectors to such frames as if they were aligned to 64 bytes, which they are not (GCC bug 110027).
  list(APPEND KERNEL_FLAGS --param=asan-use-after-return=0)
endif()
if(TRIREME_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND KERNEL_FLAGS -fno-var-tracking) # a third of the time went into where each variable lives; reports name lines
  list(APPEND KERNEL_FLAGS -Wno-maybe-uninitialized) # wrong where parts are called, not set in (inline.h); the release warns
endif()
if(TRIREME_SANITIZE STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # ASan sees what these three see of a kernel's accesses; they stand before each of them, and took half of the compiler's time.
  list(APPEND KERNEL_FLAGS -fno-sanitize=null,object-size,pointer-overflow)
endif()
if(TRIREME_FUZZ) # what is fuzzed lies above the kernels, which clang takes minutes to instrument
  list(APPEND KERNEL_FLAGS -fno-sanitize=all)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_scalar.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS}")
foreach(variant int8_plain int8_plain_wide bf16_plain) # their vectors pass from function to function only where those are inlined
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/${variant}.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS};-Wno-psabi")
endforeach()
# Tests alone run it, and -O3 takes long for vectors that no register holds.
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/int8_plain_wide.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS};-O1;-fno-stack-protector;-Wno-psabi")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_avx2.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS};-mavx2;-mfma;-mf16c")
  set(AVX2_FLAGS -mavx2 -mfma -mf16c)
  set(AVX512_FLAGS ${AVX2_FLAGS} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
  foreach(pair "avx2=${AVX2_FLAGS}" "avx_vnni=${AVX2_FLAGS};-mavxvnni" "avx512=${AVX512_FLAGS}" "vnni=${AVX512_FLAGS};-mavx512vnni"
      "amx=${AVX512_FLAGS};-mavx512vnni;-mamx-tile;-mamx-int8")
    string(REGEX MATCH "^([^=]*)=(.*)$" pair "${pair}")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/int8_${CMAKE_MATCH_1}.c PROPERTIES
      COMPILE_OPTIONS "${KERNEL_FLAGS};${CMAKE_MATCH_2}")
  endforeach()
  foreach(pair "avx2=${AVX2_FLAGS}" "avx512=${AVX512_FLAGS}" "avx512_bf16=${AVX512_FLAGS};-mavx512bf16")
    string(REGEX MATCH "^([^=]*)=(.*)$" pair "${pair}")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/bf16_${CMAKE_MATCH_1}.c PROPERTIES
      COMPILE_OPTIONS "${KERNEL_FLAGS};${CMAKE_MATCH_2}")
  endforeach()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/tile_product.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_FLAGS};${AVX512_FLAGS};-mavx512bf16;-mavx512vbmi;-mavx512vbmi2;-mamx-tile;-mamx-bf16")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/group_product.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_FLAGS};${AVX512_FLAGS};-mavx512vbmi;-mavx512vnni;-mamx-tile;-mamx-int8")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_avx512.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_FLAGS};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c;-mprefer-vector-width=512")
  list(FILTER FOLDER_SOURCES EXCLUDE REGEX "/cpu/isa_neon\\.c$")
else()
  list(FILTER FOLDER_SOURCES EXCLUDE REGEX "/cpu/(tile_product|group_product|isa_(avx2|avx512)|int8_(avx2|avx_vnni|avx512|vnni|amx)|bf16_(avx2|avx512|avx512_bf16))\\.c$")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_neon.c PROPERTIES COMPILE_OPTIONS "${KERNEL_FLAGS}")
  else()
    list(FILTER FOLDER_SOURCES EXCLUDE REGEX "/cpu/isa_neon\\.c$")
  endif()
endif()
