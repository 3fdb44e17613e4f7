"""What the commands of `antiphon` do; `gateway/cli.py` reads their arguments."""
