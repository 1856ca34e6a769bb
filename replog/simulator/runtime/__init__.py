"""Virtual time: the loop, processes that can be killed or paused, clocks, random numbers, the trace."""
