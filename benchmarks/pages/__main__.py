from benchmarks.pages import answers, chart, client_methods, write_pages

answers.write_files()
client_methods.write_clients()
chart.write_chart()
write_pages()
