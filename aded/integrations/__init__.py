"""ADED inside other programs. Each module is for one program, which need not be installed."""
