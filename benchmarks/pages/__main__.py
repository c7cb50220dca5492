from benchmarks.pages import answers, client_methods, write_pages

answers.write_files()
client_methods.write_clients()
write_pages()
