# The work is done by ./dev, which needs no make.
.PHONY: help setup demo test check fuzz flips

help:
	@./dev help

setup demo test check fuzz flips:
	@./dev $@
