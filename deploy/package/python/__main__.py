"""python3 -m trireme: becomes the program."""
import os
import sys

from . import program

os.execv(program(), ["trireme", *sys.argv[1:]])
