"""Small things that many packages share: each file says what it promises."""
