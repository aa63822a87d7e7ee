one:0:0.5 | a
