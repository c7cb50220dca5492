from benchmarks import data_sets
from benchmarks.checks import states
from benchmarks.pages import answers, chart, client_methods, write_pages

answers.write_files()
client_methods.write_clients()
chart.write_chart()
write_pages()
data_sets.PAGE.write_text(data_sets.page(), "utf-8")
states.write()
