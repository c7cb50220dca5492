from benchmarks.pages import write_pages

write_pages()
