"""The command line, `replog NOUN VERB`: data on stdout, everything else on stderr."""
