"""The command line: click commands, formatting, progress, exit codes. No algorithms."""
