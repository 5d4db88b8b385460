// Ops that give each element from the elements at the same place: what they mean and their code.
