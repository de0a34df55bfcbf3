import os
import sys

# A run starts hundreds of Python programs. Without files for the compiled modules each would compile all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
