"""What the nemesis does, one coroutine for each kind of fault, in modules named for what is hit."""
