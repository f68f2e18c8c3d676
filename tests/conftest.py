"""What every test relies on."""

import signal

# A shell ignores Ctrl-C in its background jobs, and programs inherit that: under `make test &` the
# tests that interrupt a program would wait in vain. Programs started from here get the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
