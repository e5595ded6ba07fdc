"""What can be said on the command line? One function a command: results to standard output, all else to stderr.

The rest of the program never prints.
"""
