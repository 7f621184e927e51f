"""The tables and figures of three papers, measured anew; `benchmarks/reproduce.py` is the program, docs/papers.md what came out.

| module | asks |
|---|---|
| `published` | what do the papers print? |
| `sets` | where does a set come from, how is it split and scaled? |
| `plan` | which cells are there, in which order? |
| `features`, `machines` | how is a row linearised, how is an SVM trained? |
| `measure` | what is the accuracy of a cell? |
| `ledger` | which cells are finished? |
| `document`, `drawing` | what does docs/papers.md say? |
"""
