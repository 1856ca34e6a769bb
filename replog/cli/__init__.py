"""The command line, `replog NOUN VERB`: data on stdout, everything else on stderr.

A noun's commands are in the file of its name. What a verb prints or waits for may stand beside it, as in `log_dump.py`;
options and questions to the cluster that several nouns share are in `options.py` and `asking.py`.
"""
