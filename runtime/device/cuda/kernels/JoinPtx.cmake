# Joins the PTX files INPUTS into one module, OUTPUT. Fails if a kernel calls a function that is not
# in its own file. Example: a function of libdevice, which is not linked.
set(joined "")
foreach(input IN LISTS INPUTS)
  file(READ ${input} text)
  if(text MATCHES "\\.extern[ \t]+\\.func[^;]*")
    message(FATAL_ERROR "${input} calls an undefined function: ${CMAKE_MATCH_0}")
  endif()
  if(joined)
    string(REGEX REPLACE "\n\\.(version|target|address_size)[^\n]*" "" text "${text}")
  endif()
  string(APPEND joined "${text}")
endforeach()
file(WRITE ${OUTPUT} "${joined}")
