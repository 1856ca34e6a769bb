"""`replog demo`: real records through a real crash, and the proof that nothing was lost."""
