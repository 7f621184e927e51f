"""Torture: damaged files, kills, power loss and failing calls, by the thousand, against a model of what was written.

pages.py       a reader of LMDB's page format: which page is what        harm.py      what is done to a file
specimen.py    databases in all states, and what they hold               verdict.py   using a damaged one in every way
campaign.py    many harms, each judged in a process of its own           __main__.py  the command: `python -m torture`
crashes.py     kills, power loss, failing calls in a story           background.py  failing calls in background threads alone
locks.py       processes killed with a lock, others beside
"""
