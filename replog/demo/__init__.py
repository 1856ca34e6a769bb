"""`replog demo`: real records through a real crash, with proof that nothing was lost."""
