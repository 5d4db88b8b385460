# Joins the PTX of several sources to one module: INPUTS, OUTPUT. Fails where a kernel calls a function that is not in
# it (of libdevice, which is not there).
set(joined "")
foreach(input IN LISTS INPUTS)
  file(READ ${input} text)
  if(text MATCHES "\\.extern[ \t]+\\.func[^;]*")
    message(FATAL_ERROR "${input} needs a function that no kernel has: ${CMAKE_MATCH_0}")
  endif()
  if(joined)
    string(REGEX REPLACE "\n\\.(version|target|address_size)[^\n]*" "" text "${text}")
  endif()
  string(APPEND joined "${text}")
endforeach()
file(WRITE ${OUTPUT} "${joined}")
