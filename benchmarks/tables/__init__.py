"""Tables F20 to F23 of Kangsepp, Valk & Kull (2022), rebuilt on the paper's own datasets."""
