from benchmarks.pages import answers, write_pages

answers.write_files()
write_pages()
