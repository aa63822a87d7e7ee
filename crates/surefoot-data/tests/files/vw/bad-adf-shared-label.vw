shared 1:0:0.5 | a
