# Writes a C++ table to OUT, with one entry {"name", text} for each file in FILES.
set(text "// Made by lib/Costs/EmbedPresets.cmake.\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"json(" "${content}" ")json\"},\n")
endforeach()
file(WRITE ${OUT} "${text}")
