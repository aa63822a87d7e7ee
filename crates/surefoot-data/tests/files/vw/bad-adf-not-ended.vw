shared | a
0:1:0.5 | x
shared | b
0:1:0.5 | x
