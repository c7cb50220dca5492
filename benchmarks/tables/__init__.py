"""Tables F20 to F23 of Kangsepp, Valk & Kull (2022), reproduced on the paper's datasets."""
